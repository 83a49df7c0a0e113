//! Runs, each in a process and in namespaces of its own.

use std::{
    io::{BufRead, BufReader},
    panic::AssertUnwindSafe,
    process::Stdio,
};

use crate::{
    kept,
    net::enclose,
    run::{self, Plan, Verdict},
    writes,
};

/// What a line with the verdict begins with.
const MARK: &str = "VERDICT ";

/// The process inside. `what` is `run`, or the name of a scenario.
pub fn main(what: &str, plan: &str) {
    let plan: Plan = serde_json::from_str(plan).expect("a plan");
    let tried = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            match what {
                "kept" => kept::run(&plan).await,
                "stopped-worker" => run::a_stopped_worker(&plan).await,
                "writes" => writes::run(&plan).await,
                _ => run::run(&plan).await,
            }
        })
    }));
    let verdict = tried.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Verdict {
            failure: Some(text.unwrap_or_else(|| "it panicked".to_owned())),
            ..Verdict::default()
        }
    });
    println!("{MARK}{}", serde_json::to_string(&verdict).expect("JSON"));
}

/// Runs a plan; what it said beside its verdict goes into a file of its directory.
pub fn conduct(what: &str, plan: &Plan) -> Verdict {
    std::fs::create_dir_all(&plan.dir).expect("a directory");
    let said = std::fs::File::create(plan.dir.join("said")).expect("a file");
    let mut command = enclose(std::env::current_exe().expect("a program").as_os_str());
    command.args(["inside", what, &serde_json::to_string(plan).expect("JSON")]);
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(said).spawn();
    let mut child = spawned.expect("unshare");
    let out = BufReader::new(child.stdout.take().expect("piped"));
    let lines: Vec<String> = out.lines().map_while(Result::ok).collect();
    let status = child.wait().expect("it ends");
    let verdict = lines.iter().find_map(|line| line.strip_prefix(MARK));
    let verdict = verdict.map(|text| serde_json::from_str(text).expect("a verdict"));
    let verdict: Verdict = verdict.unwrap_or_else(|| {
        let failure = Some(format!("it ended with {status} and without a verdict"));
        Verdict { failure, ..Verdict::default() }
    });
    match &verdict.failure {
        None => run::tidy(&plan.dir),
        Some(_) => println!("{}: what is left of it is in {}", plan.name(), plan.dir.display()),
    }
    verdict
}
