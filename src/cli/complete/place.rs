//! Where the cursor stands in a command line, by the definition of the commands.

use clap::{Arg, ArgAction, Args as _, Command, FromArgMatches as _, builder::StyledStr};

use super::{form::Candidate, names::Source};
use crate::cli::servers::ServerArgs;

/// The place of the cursor.
pub(super) struct Place<'a> {
    command: &'a Command,
    /// The option whose value stands at the cursor.
    value_of: Option<&'a Arg>,
    /// The number of positional arguments before the cursor.
    positionals: usize,
    /// The global options before the cursor, and their values.
    globals: Vec<(&'a str, Option<String>)>,
    /// What the word at the cursor begins with that stays as it is: `--owner=`, or the first items of a list.
    pub(super) before: String,
    /// The beginning of what is to be completed.
    pub(super) partial: String,
}

impl<'a> Place<'a> {
    /// Finds the place at the end of these words, the first of which is the program. `None` if it is within the command
    /// line of another program.
    pub(super) fn find(root: &'a Command, words: &[String]) -> Option<Self> {
        let (last, earlier) = words.split_last()?;
        let mut place = Self {
            command: root,
            value_of: None,
            positionals: 0,
            globals: Vec::new(),
            before: String::new(),
            partial: last.clone(),
        };
        for word in earlier.iter().skip(1) {
            if word == "--" && place.value_of.is_none() {
                return None;
            }
            place.pass(word);
        }
        place.stop(last);
        Some(place)
    }

    /// Goes past a whole word.
    fn pass(&mut self, word: &str) {
        if let Some(option) = self.value_of.take() {
            self.note(option, Some(word));
        } else if word.starts_with("--") {
            let (name, value) = split(word);
            let Some(option) = self.option(name) else { return };
            if value.is_none() && takes_value(option) {
                self.value_of = Some(option);
            } else {
                self.note(option, value);
            }
        } else if word.starts_with('-') && word.len() > 1 {
            self.value_of = self.short(word);
        } else if let Some(command) = self.command.find_subcommand(word) {
            (self.command, self.positionals) = (command, 0);
        } else {
            self.positionals += 1;
        }
    }

    /// Looks at the word at the cursor.
    fn stop(&mut self, word: &str) {
        if self.value_of.is_none()
            && let (name, Some(_)) = split(word)
            && let Some(option) = self.option(name)
        {
            self.value_of = Some(option);
            self.keep(name.len() + 1);
        }
        let lists = self.argument().is_some_and(|arg| arg.get_value_delimiter() == Some(','));
        if let (true, Some(at)) = (lists, self.partial.rfind(',')) {
            self.keep(at + 1);
        }
    }

    /// Leaves the first bytes of the word as they are.
    fn keep(&mut self, bytes: usize) {
        let rest = self.partial.split_off(bytes);
        self.before.push_str(&std::mem::replace(&mut self.partial, rest));
    }

    /// Notes an option if it is a global one.
    fn note(&mut self, option: &'a Arg, value: Option<&str>) {
        if let Some(name) = option.get_long().filter(|_| option.is_global_set()) {
            self.globals.push((name, value.map(str::to_owned)));
        }
    }

    fn option(&self, name: &str) -> Option<&'a Arg> {
        let name = name.strip_prefix("--")?;
        self.command.get_arguments().find(|arg| arg.get_long() == Some(name))
    }

    /// The option at the end of a group of short ones, if its value is the next word.
    fn short(&self, group: &str) -> Option<&'a Arg> {
        let mut letters = group.chars().skip(1);
        while let Some(letter) = letters.next() {
            let option =
                self.command.get_arguments().find(|arg| arg.get_short() == Some(letter))?;
            if takes_value(option) {
                return Some(option).filter(|_| letters.next().is_none());
            }
        }
        None
    }

    /// The argument whose value stands at the cursor.
    fn argument(&self) -> Option<&'a Arg> {
        let command = self.command;
        let last = || command.get_positionals().last().filter(|arg| takes_many(arg));
        let positional = || command.get_positionals().nth(self.positionals).or_else(last);
        self.value_of.or_else(positional)
    }

    /// What is wanted there.
    pub(super) fn wanted(&self) -> Source {
        if let Some(option) = self.value_of {
            return Source::of(option);
        }
        if self.partial.starts_with('-') {
            return Source::Words(self.options());
        }
        let commands = if self.positionals == 0 { self.commands() } else { Vec::new() };
        match self.argument().filter(|arg| !arg.is_last_set()).map(Source::of) {
            Some(Source::Words(words)) => Source::Words([commands, words].concat()),
            Some(source) if commands.is_empty() => source,
            _ => Source::Words(commands),
        }
    }

    fn commands(&self) -> Vec<Candidate> {
        let shown = self.command.get_subcommands().filter(|command| !command.is_hide_set());
        let candidate = |command: &Command| Candidate {
            word: command.get_name().to_owned(),
            help: first_line(command.get_about()),
        };
        shown.map(candidate).collect()
    }

    fn options(&self) -> Vec<Candidate> {
        let shown = self.command.get_arguments().filter(|arg| !arg.is_hide_set());
        let candidate = |arg: &Arg| {
            let word = format!("--{}", arg.get_long()?);
            Some(Candidate { word, help: first_line(arg.get_help()) })
        };
        shown.filter_map(candidate).collect()
    }

    /// How the servers of this command line are reached.
    pub(super) fn servers(&self) -> Option<ServerArgs> {
        let command = ServerArgs::augment_args(Command::new("tenure"));
        let mut line = vec!["tenure".to_owned()];
        for (name, value) in &self.globals {
            if command.get_arguments().any(|arg| arg.get_long() == Some(*name)) {
                line.push(format!("--{name}"));
                line.extend(value.clone());
            }
        }
        let matches = command.try_get_matches_from(line).ok()?;
        ServerArgs::from_arg_matches(&matches).ok()?.settled(&matches).ok()
    }
}

/// The name and the value of `--name=value`.
fn split(word: &str) -> (&str, Option<&str>) {
    match word.split_once('=') {
        Some((name, value)) if name.starts_with("--") => (name, Some(value)),
        _ => (word, None),
    }
}

fn takes_value(arg: &Arg) -> bool {
    // `--watch[=DURATION]` takes no word of its own.
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

fn takes_many(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

fn first_line(help: Option<&StyledStr>) -> String {
    let help = help.map(ToString::to_string).unwrap_or_default();
    help.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with the shapes of arguments that tenure has.
    fn program() -> Command {
        let watch = Arg::new("watch").long("watch").num_args(0..=1).require_equals(true);
        let get = Command::new("get")
            .about("Show one lease")
            .arg(Arg::new("key"))
            .arg(Arg::new("owner").long("owner"))
            .arg(watch)
            .arg(Arg::new("state").long("state").value_parser(["held", "free"]));
        let any = Arg::new("any").long("any").value_delimiter(',').action(ArgAction::Append);
        let run = Command::new("run")
            .arg(any)
            .arg(Arg::new("command").last(true).action(ArgAction::Append));
        let output = Arg::new("output").long("output").short('o').global(true);
        let program = ServerArgs::augment_args(Command::new("tenure")).arg(output);
        let mut program = program.subcommands([get, run]);
        program.build();
        program
    }

    /// What is wanted after these words, the last of which may be empty: `names`, `files`, or words.
    fn wanted(line: &str) -> (String, String) {
        let program = program();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let Some(place) = Place::find(&program, &words) else {
            return ("none".into(), String::new());
        };
        let wanted = match place.wanted() {
            Source::Files => "files".to_owned(),
            Source::Names(names) => format!("{names:?}"),
            Source::Words(words) => {
                let words = words.iter().filter(|one| one.word.starts_with(&place.partial));
                words.map(|one| one.word.as_str()).collect::<Vec<_>>().join(" ")
            }
        };
        (wanted, format!("{}|{}", place.before, place.partial))
    }

    #[test]
    fn the_place_of_the_cursor_says_what_is_wanted() {
        for (line, what, word) in [
            ("tenure ", "get run help", "|"),
            ("tenure g", "get", "|g"),
            ("tenure get ", "Keys", "|"),
            ("tenure --server h:1 get jobs/", "Keys", "|jobs/"),
            ("tenure get -o json k --owner w", "Owners", "|w"),
            ("tenure get --owner=w:", "Owners", "--owner=|w:"),
            ("tenure get --watch jo", "Keys", "|jo"),
            ("tenure get --state h", "held", "|h"),
            ("tenure get --sta", "--state", "|--sta"),
            ("tenure run --any a,b", "Keys", "a,|b"),
            ("tenure run --any=a,b", "Keys", "--any=a,|b"),
            ("tenure get --ca ", "files", "|"),
            ("tenure --context p", "Contexts", "|p"),
            ("tenure get k x", "", "|x"),
            ("tenure run -- cmd", "none", ""),
        ] {
            assert_eq!(wanted(line), (what.to_owned(), word.to_owned()), "{line}");
        }
    }

    #[test]
    fn the_servers_are_those_of_the_line() {
        let program = program();
        let line =
            ["tenure", "--server", "h:1", "get", "--ca=c", "-o", "json", ""].map(str::to_owned);
        let servers = Place::find(&program, &line).unwrap().servers().unwrap();
        let reached = servers.reached().unwrap();
        assert_eq!((&*reached.entry.server, reached.entry.ca), ("h:1", Some("c".into())));
    }
}
