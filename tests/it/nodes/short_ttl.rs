//! What agents say of a ttl with which their programs stop each time that a coordinator dies.

use std::process::Command;

use crate::{
    nodes::pair::Pair,
    support::{clock::ms, process::Process},
};

const WARNING: &str = "stops each time that a coordinator dies";

/// Starts an agent. ARGS are split at spaces.
fn agent(pair: &Pair, args: &str) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(["--server", &pair.a.url]).args(args.split_whitespace());
    Process::start("the agent", &mut command)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_warns_of_a_ttl_that_outlasts_no_death_of_a_coordinator() {
    let pair = Pair::nats().await;
    let scripts = "--healthcheck true --activate true --deactivate true";
    let agents = [
        "run --key KEY TTL -- sleep 60".to_owned(),
        "lock KEY TTL -- sleep 60".to_owned(),
        "work --pool default --keys KEY TTL -- sleep 60".to_owned(),
        "cron --key KEY --every 1h TTL -- sleep 60".to_owned(),
        format!("guard --key KEY --owner KEY TTL {scripts}"),
    ];
    for (at, args) in agents.into_iter().enumerate() {
        let with = |key: &str, ttl: &str| {
            agent(&pair, &args.replace("KEY", key).replace("TTL", &format!("--ttl {ttl}")))
        };
        let short = with(&format!("{at}/short"), "6s");
        let line = short.timed_line("tenure: warning: with a ttl of 6s", ms(5_000));
        let line = line.unwrap_or_else(|| panic!("{args}: {}", short.said()));
        assert!(line.contains(WARNING) && line.contains("Use --ttl"), "{line}");
        let least = line.rsplit("Use --ttl ").next().and_then(|ttl| ttl.split(' ').next());
        short.kill();
        let least = least.expect("a ttl is advised");
        let enough = with(&format!("{at}/enough"), least);
        tokio::time::sleep(ms(1_500)).await;
        assert!(!enough.said().contains(WARNING), "{args}: {}", enough.said());
        enough.kill();
    }
}
