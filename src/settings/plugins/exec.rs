//! The kind `exec`.

use std::collections::BTreeMap;

use config::{ConfigError, Value, ValueKind};

use super::{
    super::{
        secret::Secret,
        table::section,
        value::{Format, Shown},
    },
    strict::{must_be, text, texts},
};

section! {
    /// Runs a program for each fence. Exit status 0 confirms.
    pub struct ExecPlugin {
        /// exec: the program and its arguments. Exit status 0 confirms.
        command: Vec<String> = Vec::new(), required = true,
            example = r#"["/usr/local/bin/fence", "--off"]"#, read program, show without_arguments;
        /// exec: additional environment variables, besides TENURE_KEY, TENURE_TOKEN and so on. Never displayed.
        environment: BTreeMap<String, Secret> = BTreeMap::new(),
            example = r#"{ SITE = "north" }"#;
    }
}

fn program(value: Value) -> Result<Vec<String>, ConfigError> {
    let is_program = |words: &Vec<String>| {
        words.first().is_some_and(|program| !program.is_empty())
            && !words.iter().any(|word| word.contains('\0'))
    };
    let expecting = "a list of texts: the program, then its arguments";
    must_be(expecting, texts(value).filter(is_program))
}

/// The arguments may contain a password.
fn without_arguments(command: &[String]) -> Shown {
    match command {
        [program, _, ..] => Shown::Hidden(format!(" beyond {program:?}")),
        _ => command.to_vec().show(),
    }
}

/// Additional environment variables.
impl Format for BTreeMap<String, Secret> {
    fn read(value: Value) -> Result<Self, ConfigError> {
        let variable = |(name, value): (String, Value)| {
            let fits = !name.is_empty() && !name.contains(['=', '\0']);
            let value = text(value).filter(|value| !value.contains('\0'))?;
            (fits && !name.starts_with("TENURE_")).then(|| (name, Secret::new(value)))
        };
        let variables = match value.kind {
            ValueKind::Table(variables) => variables.into_iter().map(variable).collect(),
            _ => None,
        };
        must_be("a table of texts; names that begin with TENURE_ are taken", variables)
    }

    fn show(&self) -> Shown {
        if self.is_empty() { Shown::Nothing } else { Shown::Hidden(String::new()) }
    }
}
