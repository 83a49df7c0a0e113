//! `tenure-history a.jsonl b.jsonl …`: puts histories together, counts what is in them, and tells each violation of
//! I1 to I8 and R10 as a timeline. `--bound-ms N`: how long after the faults everything may take (I8). `--need NAME=N`:
//! of what there must have been enough. The last line is `N passed, N failed`, over invariants and needs.

#[path = "mod.rs"]
mod history;

use std::{path::PathBuf, process::ExitCode};

use history::{Event, INVARIANTS, Limits, Needs, check_within, read};

#[derive(Default)]
struct Args {
    files: Vec<PathBuf>,
    limits: Limits,
    needs: Vec<(String, u64)>,
}

fn args() -> Result<Args, String> {
    let mut args = Args::default();
    let mut words = std::env::args().skip(1);
    let number = |word: &str| word.parse::<u64>().map_err(|error| format!("{word:?}: {error}"));
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
        match word.as_str() {
            "--bound-ms" => args.limits = Limits::of(number(&value()?)?.saturating_mul(1_000_000)),
            "--need" => {
                let need = value()?;
                let (name, least) = need.split_once('=').ok_or("--need wants NAME=N")?;
                Needs::default().set(name, 0)?;
                args.needs.push((name.to_owned(), number(least)?));
            }
            option if option.starts_with('-') => return Err(format!("unknown option {option}")),
            _ => args.files.push(PathBuf::from(word)),
        }
    }
    if args.files.is_empty() {
        return Err("usage: tenure-history [--bound-ms N] [--need NAME=N]… FILE…".to_owned());
    }
    Ok(args)
}

fn run() -> Result<bool, String> {
    let args = args()?;
    let mut lines = Vec::new();
    for file in &args.files {
        lines.extend(read(file)?);
    }
    if !lines.iter().any(|line| matches!(line.event, Event::Run { .. })) {
        return Err("no line says what run this was: it is no whole history".to_owned());
    }
    let report = check_within(&lines, &args.limits);
    print!("{report}");
    let mut failed = report.broken().len();
    for (name, least) in &args.needs {
        let mut needs = Needs::default();
        needs.set(name, *least)?;
        if let Err(short) = report.demand(&needs) {
            println!("{short}");
            failed += 1;
        }
    }
    println!("{} passed, {failed} failed", INVARIANTS.len() + args.needs.len() - failed);
    Ok(failed == 0)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
