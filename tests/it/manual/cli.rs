//! The page of the command line is written from the definition of the commands; `UPDATE=1` writes it anew.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};
use tenure::cli::{Cli, Exit};

use super::{read, root};

const PAGE: &str = "docs/cli.md";
const BEGIN: &str = "<!-- The rest is generated: make openapi -->\n";

/// A text for Markdown: what looks like a tag or a column is none.
fn escaped(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let escaped = parts.map(|(at, part)| {
        // Between backticks, only a column's end needs an escape.
        let part = part.replace('|', "\\|");
        if at % 2 == 0 {
            part.replace('<', "&lt;").replace('>', "&gt;").replace('*', "\\*")
        } else {
            part
        }
    });
    escaped.collect::<Vec<_>>().join("`").replace('\n', " ")
}

/// How an argument is written.
fn written(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    let value =
        if names.is_empty() { arg.get_id().as_str().to_uppercase() } else { names.join(" ") };
    if arg.is_positional() {
        let dashes = if arg.is_last_set() { "-- " } else { "" };
        let many = if arg.is_last_set() { "…" } else { "" };
        return if arg.is_required_set() {
            format!("`{dashes}{value}{many}`")
        } else {
            format!("`[{dashes}{value}{many}]`")
        };
    }
    let value = match (arg.get_action().takes_values(), arg.is_require_equals_set()) {
        (false, _) => String::new(),
        (true, true) => format!("[={value}]"),
        (true, false) => format!(" {value}"),
    };
    let long = arg.get_long().map(|long| format!("--{long}"));
    let short = arg.get_short().map(|short| format!("-{short}"));
    let both: Vec<String> = short.into_iter().chain(long).collect();
    format!("`{}{value}`", both.join(", "))
}

/// What an argument means, its values, its default and its environment variable.
fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
    let mut text = escaped(&help.unwrap_or_default());
    let values = arg.get_possible_values();
    let values: Vec<_> = values.iter().filter(|value| !value.is_hide_set()).collect();
    if arg.get_action().takes_values() && !values.is_empty() {
        let named: Vec<String> =
            values.iter().map(|value| format!("`{}`", value.get_name())).collect();
        let _ = write!(text, ": {}", named.join(", "));
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|it| it.to_string_lossy()).collect();
    if arg.get_action().takes_values() && defaults.iter().any(|it| !it.is_empty()) {
        let _ = write!(text, " (default `{}`)", defaults.join(","));
    }
    if let Some(name) = arg.get_env() {
        let _ = write!(text, " (`{}`)", name.to_string_lossy());
    }
    text
}

fn table(out: &mut String, args: &[&Arg]) {
    if args.is_empty() {
        return;
    }
    out.push_str("\n| argument | meaning |\n| --- | --- |\n");
    for arg in args {
        let _ = writeln!(out, "| {} | {} |", written(arg), meaning(arg));
    }
}

/// A command and those below it.
fn command(out: &mut String, name: &str, defined: &Command) {
    let about = defined.get_long_about().or(defined.get_about()).map(ToString::to_string);
    let about = about.unwrap_or_default();
    let paragraphs: Vec<String> = about.split("\n\n").map(|part| escaped(part.trim())).collect();
    let _ = write!(out, "\n## {name}\n\n{}", paragraphs.join("\n\n"));
    out.push_str(if about.trim_end().ends_with('.') { "\n" } else { ".\n" });
    let own = |arg: &&Arg| {
        !arg.is_global_set()
            && !arg.is_hide_set()
            && !["help", "version"].contains(&arg.get_id().as_str())
    };
    let (first, then): (Vec<&Arg>, Vec<&Arg>) =
        defined.get_arguments().filter(own).partition(|arg| arg.is_positional());
    table(out, &[first, then].concat());
    for below in subcommands(defined) {
        command(out, &format!("{name} {}", below.get_name()), below);
    }
}

fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help")
}

fn generated() -> String {
    let tenure = Cli::command();
    let mut out = String::from("\n## Options of every command\n");
    let global: Vec<&Arg> = tenure.get_arguments().filter(|arg| arg.is_global_set()).collect();
    table(&mut out, &global);
    out.push_str("\n## Exit codes\n\n| code | meaning |\n| --- | --- |\n");
    for exit in Exit::ALL {
        let _ = writeln!(out, "| {} | {} |", exit.code(), escaped(exit.meaning()));
    }
    for below in subcommands(&tenure) {
        command(&mut out, &format!("tenure {}", below.get_name()), below);
    }
    out
}

#[test]
fn the_page_of_the_definedline_is_its_definition() {
    let page = read(PAGE);
    let (head, found) = page.split_once(BEGIN).expect("the mark before what is generated");
    let expected = generated();
    if std::env::var_os("UPDATE").is_some() {
        let text = format!("{head}{BEGIN}{expected}");
        std::fs::write(root().join(PAGE), text).expect("written");
        return;
    }
    assert!(found == expected, "{PAGE} is old: run `make openapi`");
}

#[test]
fn the_page_names_every_definedand_option_and_no_hidden_one() {
    let text = generated();
    for part in [
        "## tenure lock\n",
        "## tenure sessions open\n",
        "`-o, --output FORMAT`",
        "--watch[=DURATION]`",
        "`-- COMMAND…`",
    ] {
        assert!(text.contains(part), "{part} is missing");
    }
    for hidden in ["tenure guardian", "tenure complete\n", "tenure last-will", "`-h, --help`"] {
        assert!(!text.contains(hidden), "{hidden}");
    }
    assert_eq!(escaped("a <b> `c<d>|e` *"), "a &lt;b&gt; `c<d>\\|e` \\*");
}
