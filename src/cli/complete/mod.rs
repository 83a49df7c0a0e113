//! `tenure complete`: what may stand at the cursor of a command line. The scripts of `tenure completions` call it.
//!
//! Guarantees: it answers within half a second or so, says nothing on failure, and offers no word that a shell would
//! not take as it is.

mod form;
mod names;
mod place;

use clap::{Args, Command};

use self::{
    form::{Candidate, Form},
    names::{Names, Source},
    place::Place,
};
use crate::cli::{
    exit::{Exit, Failure},
    output::Output,
};

/// Print what may stand at the cursor (called by completion scripts); exit code 1 asks the shell for file names.
#[derive(Clone, Debug, Args)]
pub struct CompleteArgs {
    /// Shell that asks
    #[arg(long, value_enum)]
    form: Form,
    /// Characters at which the shell divides words, besides blanks
    #[arg(long, value_name = "CHARACTERS", default_value = "", allow_hyphen_values = true)]
    breaks: String,
    /// Words of the command line up to the cursor; the last one is the one at the cursor
    #[arg(last = true, required = true, value_name = "WORDS")]
    words: Vec<String>,
}

impl CompleteArgs {
    pub(super) fn run(self, mut tenure: Command, output: &Output) -> Result<Exit, Failure> {
        tenure.build();
        let Some(place) = Place::find(&tenure, &self.words) else { return Ok(Exit::Other) };
        let candidates = match place.wanted() {
            Source::Files => return Ok(Exit::Other),
            Source::Words(words) => words,
            Source::Names(names) => known(names, &place),
        };
        let mut text = String::new();
        for candidate in candidates.iter().filter(|one| one.word.starts_with(&place.partial)) {
            let word = format!("{}{}", place.before, candidate.word);
            if form::is_plain(&word) {
                let typed = format!("{}{}", place.before, place.partial);
                text.push_str(&self.form.line(&word, &candidate.help, &typed, &self.breaks));
            }
        }
        output.text(&text)?;
        Ok(Exit::Done)
    }
}

/// The names that the server of this command line knows, or the user's contexts. None if they cannot be had in time.
fn known(names: Names, place: &Place<'_>) -> Vec<Candidate> {
    let servers = place.servers();
    let found = servers.map(|servers| names::find(names, &servers, &place.partial));
    found.into_iter().flatten().map(Candidate::named).collect()
}
