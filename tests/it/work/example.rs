//! `examples/shard_workers`: a shard goes on at another worker where the first one stopped.

use rustix::process::Signal;

use crate::support::harness::process::Server;

use crate::work::{
    agent::{Agent, Place},
    process::{PATIENCE, within},
};

fn worker(place: &Place, server: &Server, owner: &str) -> Agent {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tenure"));
    let url = format!("http://{}", server.addr);
    command.args(["--server", &url, "work", "--pool", "default", "--ttl", "3s", "--grace", "1s"]);
    command.args(["--keys", "s/1,s/2", "--owner", owner, "--"]);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/shard_workers/shard-worker.sh"));
    command.arg(place.path(""));
    place.start(command)
}

/// The steps of a shard and the tokens under which they were done.
fn steps(place: &Place, shard: &str) -> Vec<(u64, u64)> {
    let text = place.read(shard);
    let step = |line: &str| {
        let (step, token) = line.split_once(' ')?;
        Some((step.parse().ok()?, token.parse().ok()?))
    };
    text.lines().filter_map(step).collect()
}

#[tokio::test]
async fn a_shard_goes_on_where_the_worker_before_stopped() {
    let (server, place) = (Server::start(), Place::new());
    let mut first = worker(&place, &server, "w1");
    let both =
        |least: usize| ["s+1", "s+2"].iter().all(|shard| steps(&place, shard).len() >= least);
    assert!(within(PATIENCE, async || both(3)).await);
    let mut second = worker(&place, &server, "w2");
    first.signal(Signal::TERM);
    assert_eq!(first.over().await.code(), 0);
    let done = steps(&place, "s+1").len().max(steps(&place, "s+2").len());
    assert!(within(PATIENCE, async || both(done + 3)).await);
    second.signal(Signal::TERM);
    assert_eq!(second.over().await.code(), 0);
    for shard in ["s+1", "s+2"] {
        let steps = steps(&place, shard);
        assert!(
            steps.windows(2).all(|two| two[1].0 == two[0].0 + 1),
            "no step twice, none left out: {steps:?}"
        );
        assert!(steps.windows(2).all(|two| two[1].1 >= two[0].1), "{steps:?}");
        assert!(steps.last().expect("steps").1 > steps[0].1, "the shard changed hands: {steps:?}");
    }
}
