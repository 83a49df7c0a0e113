//! `tenure run`.

use rustix::process::Signal;
use serde_json::{Value, json};
use tenure::clock::boottime_ms;

use crate::support::harness::process::Server;

use crate::work::{
    agent::{Agent, Place, lease, post},
    process::{PATIENCE, lives, ms, signal, within},
};

/// Writes its number, and the moments at which it lived, in hundredths of a second since the boot.
const BEATS: &str = "echo $$ > $D/pid; trap '' TERM; \
                     while :; do cut -d' ' -f1 /proc/uptime > $D/.beat; mv $D/.beat $D/beat; sleep 0.02; done";
const SHORT: &str = "run --key k --ttl 2s --grace 300ms";

/// The last moment at which it lived, in milliseconds of `CLOCK_BOOTTIME`.
fn last_beat(place: &Place) -> u64 {
    let beat: f64 = place.read("beat").trim().parse().expect("a moment");
    (beat * 1000.0) as u64
}

/// Starts [`BEATS`] under `run`, and waits until it runs.
async fn beating(place: &Place, server: &Server, args: &str) -> (Agent, u32) {
    let agent = place.agent(server.addr, args, BEATS);
    let pid = place.pid("pid").await;
    assert!(within(PATIENCE, async || !place.read("beat").is_empty()).await);
    (agent, pid)
}

#[tokio::test]
async fn it_ends_with_the_programs_code_and_gives_the_lease_back() {
    let (server, place) = (Server::start(), Place::new());
    let over =
        place.agent(server.addr, "run --key k", "echo out; echo err >&2; exit 42").over().await;
    assert_eq!((over.code(), over.stdout.as_str()), (42, "out\n"));
    assert!(over.stderr.contains("err\n"), "{}", over.stderr);
    assert_eq!(lease(server.addr, "k").await["state"], "free");
    assert_eq!(place.agent(server.addr, "run --key k", "kill -9 $$").over().await.code(), 137);
    for (program, code) in [("/no/such/program", 127), ("/dev/null", 126)] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args([
            "--server",
            &format!("http://{}", server.addr),
            "run",
            "--key",
            "k",
            "--",
            program,
        ]);
        let over = place.start(command).over().await;
        assert_eq!(over.code(), code, "{}", over.stderr);
        assert!(over.stderr.contains(program), "{}", over.stderr);
    }
    assert_eq!(lease(server.addr, "k").await["state"], "free");
}

#[tokio::test]
async fn the_program_knows_its_lease_and_reads_the_agents_standard_input() {
    let (server, place) = (Server::start(), Place::new());
    let line = "cat > $D/in; env | grep ^TENURE_ | sort > $D/env; cp $TENURE_LEASE_FILE $D/lease; \
                stat -c %a $TENURE_LEASE_FILE > $D/mode; printf done-7 > $TENURE_VALUE_FILE";
    let mut agent = place.agent(server.addr, "run --key a/1 --owner w --ttl 9s --grace 1s", line);
    agent.say("one\ntwo\n");
    assert_eq!(agent.over().await.code(), 0);
    assert_eq!(place.read("in"), "one\ntwo\n");
    let env = place.read("env");
    let variables = ["KEY=a/1", "OWNER=w", "TOKEN=1", "TTL_MS=9000", "SERVER=http://127.0.0.1:"];
    for variable in variables {
        assert!(env.contains(&format!("TENURE_{variable}")), "{variable}: {env}");
    }
    assert!(!env.contains("TENURE_VALUE="), "{env}");
    let file: Value = serde_json::from_str(&place.read("lease")).expect("JSON");
    let left =
        file["deadline_boottime_ms"].as_u64().expect("a number") as i64 - boottime_ms() as i64;
    assert!((4000..9000).contains(&left), "{left}");
    assert_eq!(
        (&file["key"], &file["token"], &file["owner"]),
        (&json!("a/1"), &json!(1), &json!("w"))
    );
    assert_eq!(place.read("mode"), "600\n");
    let line = "echo $TENURE_VALUE > $D/value";
    assert_eq!(place.agent(server.addr, "run --key a/1", line).over().await.code(), 0);
    assert_eq!(place.read("value"), "done-7\n", "what the owner before left");
    let path =
        env.lines().find_map(|line| line.strip_prefix("TENURE_LEASE_FILE=")).expect("a path");
    let dir = std::path::Path::new(path).parent().expect("a directory");
    assert!(!dir.exists(), "nothing is left behind");
}

#[tokio::test]
async fn a_value_that_no_variable_can_have_stops_nobody() {
    let (server, place) = (Server::start(), Place::new());
    let body = json!({ "key": "k", "owner": "m", "ttl_ms": 60_000, "value": "x\0y" });
    let grant = server.post("/v1/acquire", &body).await.ok();
    let proof = json!({ "key": "k", "lease_id": grant["lease_id"] });
    server.post("/v1/release", &proof).await.ok();
    let line = "cat $TENURE_VALUE_FILE > $D/value; echo ${TENURE_VALUE-unset} > $D/variable";
    let over = place.agent(server.addr, "run --key k --owner w", line).over().await;
    assert_eq!(over.code(), 0, "{}", over.stderr);
    assert_eq!(
        (place.read("value").as_str(), place.read("variable").as_str()),
        ("x\0y", "unset\n")
    );
    assert_eq!(lease(server.addr, "k").await["value"], "x\0y", "it stays for the next one");
}

#[tokio::test]
async fn a_program_inherits_no_secret_of_the_agent() {
    let (server, place) = (Server::start(), Place::new());
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(["--server", &format!("http://{}", server.addr), "run", "--key", "k", "--"]);
    // The guardian is its parent.
    command.args(["/bin/sh", "-c", "env > $D/env; tr '\\0' '\\n' < /proc/$PPID/environ >> $D/env"]);
    command.env("TENURE__STORE__NATS__PASSWORD", "hunter2").env("TENURE_SESSION_ID", "hunter2");
    command.env("TENURE_LEASE_ID", "hunter2").env("MINE", "kept");
    std::fs::write(place.path("token"), "hunter2").expect("written");
    command.env("TENURE_TOKEN_FILE", place.path("token"));
    assert_eq!(place.start(command).over().await.code(), 0);
    let env = place.read("env");
    assert!(env.contains("MINE=kept") && env.contains("TENURE_TOKEN=1"), "{env}");
    assert!(!env.contains("hunter2") && !env.contains("TENURE__"), "{env}");
    assert!(!env.contains("TENURE_TOKEN_FILE"), "{env}");
}

#[tokio::test]
async fn signals_reach_the_program() {
    let (server, place) = (Server::start(), Place::new());
    let line = "trap 'echo usr1 >> $D/heard' USR1; trap 'echo int >> $D/heard' INT; \
                trap 'echo term >> $D/heard; exit 9' TERM; \
                echo $$ > $D/pid; while :; do sleep 0.02; done";
    let mut agent = place.agent(server.addr, "run --key k", line);
    place.pid("pid").await;
    for (kind, heard) in [(Signal::USR1, "usr1\n"), (Signal::INT, "usr1\nint\n")] {
        agent.signal(kind);
        assert!(
            within(PATIENCE, async || place.read("heard") == heard).await,
            "{}",
            place.read("heard")
        );
    }
    agent.signal(Signal::TERM);
    assert_eq!(agent.over().await.code(), 9);
    assert_eq!(place.read("heard"), "usr1\nint\nterm\n");
    let mut agent = place.agent(server.addr, "run --key k", "echo $$ > $D/pid2; exec sleep 60");
    place.pid("pid2").await;
    agent.signal(Signal::TERM);
    assert_eq!(agent.over().await.code(), 143);
    assert_eq!(lease(server.addr, "k").await["state"], "free");
}

#[tokio::test]
async fn what_cannot_be_had_is_waited_for_or_not() {
    let (server, place) = (Server::start(), Place::new());
    let mut holder =
        place.agent(server.addr, "run --key k --owner a", "echo $$ > $D/pid; exec sleep 60");
    place.pid("pid").await;
    let refused = place.agent(server.addr, "run --key k", ":").over().await;
    assert_eq!(refused.code(), 73, "{}", refused.stderr);
    let from = boottime_ms();
    assert_eq!(place.agent(server.addr, "run --key k --wait 500ms", ":").over().await.code(), 73);
    assert!(boottime_ms() - from >= 500);
    let waiting =
        place.agent(server.addr, "run --key k --wait forever", "echo $TENURE_TOKEN > $D/token");
    let mut gives_up = place.agent(server.addr, "run --key k --wait forever", ":");
    tokio::time::sleep(ms(500)).await;
    gives_up.signal(Signal::INT);
    assert_eq!(gives_up.over().await.code(), 130);
    holder.signal(Signal::TERM);
    assert_eq!((waiting.over().await.code(), place.read("token").as_str()), (0, "2\n"));
}

#[tokio::test]
async fn one_of_several_keys_or_of_a_pool() {
    let server = Server::configured("[[policy]]\nprefix = \"p/\"\npool = \"work\"\n");
    let place = Place::new();
    let line = "echo $TENURE_KEY > $D/one; exec sleep 60";
    let _holder = place.agent(server.addr, "run --any p/1,p/2", line);
    assert!(within(PATIENCE, async || !place.read("one").is_empty()).await);
    let over =
        place.agent(server.addr, "run --any p/1,p/2", "echo $TENURE_KEY > $D/other").over().await;
    assert_eq!(over.code(), 0, "{}", over.stderr);
    let mut both = [place.read("one"), place.read("other")];
    both.sort();
    assert_eq!(both, ["p/1\n", "p/2\n"]);
    let over =
        place.agent(server.addr, "run --pool work", "echo $TENURE_KEY > $D/pool").over().await;
    assert_eq!((over.code(), place.read("pool")), (0, place.read("other")), "{}", over.stderr);
}

#[tokio::test]
async fn what_cannot_be_ended_in_time_is_refused_and_an_unreachable_server_told() {
    let place = Place::new();
    let nowhere = "127.0.0.1:1".parse().expect("an address");
    let over = place.agent(nowhere, "run --key k --ttl 2s --grace 900ms", ":").over().await;
    assert_eq!(over.code(), 64);
    assert!(over.stderr.contains("--grace 800ms"), "{}", over.stderr);
    assert_eq!(place.agent(nowhere, "run --key k", ":").over().await.code(), 69);
}

#[tokio::test]
async fn without_its_coordinator_the_program_is_dead_before_the_guarantee_ends() {
    let (server, place) = (Server::start(), Place::new());
    let line = format!(
        "(while sleep 0.05; do cp $TENURE_LEASE_FILE $D/.l 2>&- && mv $D/.l $D/lease; done) & {BEATS}"
    );
    let agent = place.agent(server.addr, SHORT, &line);
    let pid = place.pid("pid").await;
    assert!(within(PATIENCE, async || !place.read("lease").is_empty()).await);
    server.signal(Signal::STOP);
    assert!(within(PATIENCE, async || !lives(pid)).await);
    let file: Value = serde_json::from_str(&place.read("lease")).expect("JSON");
    let deadline = file["deadline_boottime_ms"].as_u64().expect("a number");
    let last = last_beat(&place);
    assert!(last <= deadline, "{} ms late", last - deadline);
    assert!(last + 600 > deadline, "{} ms early", deadline - last);
    server.signal(Signal::CONT);
    assert_eq!(agent.over().await.code(), 74);
}

#[tokio::test]
async fn when_the_agent_is_stopped_the_program_is_dead_before_the_guarantee_ends() {
    let (server, place) = (Server::start(), Place::new());
    let (mut agent, pid) = beating(&place, &server, SHORT).await;
    let from = boottime_ms();
    agent.signal(Signal::STOP);
    assert!(within(PATIENCE, async || !lives(pid)).await);
    // The last renewal was not later than that.
    let last = last_beat(&place);
    assert!(last < from + 2000, "{} ms after the last renewal at best", last - from);
    agent.signal(Signal::CONT);
    assert_eq!(agent.over().await.code(), 74);
}

#[tokio::test]
async fn when_the_agent_is_killed_no_orphan_is_left() {
    let (server, place) = (Server::start(), Place::new());
    let line = format!("sleep 60 & echo $! > $D/grandchild; {BEATS}");
    let mut agent = place.agent(server.addr, SHORT, &line);
    let (pid, grandchild) = (place.pid("pid").await, place.pid("grandchild").await);
    let from = boottime_ms();
    agent.signal(Signal::KILL);
    assert!(within(PATIENCE, async || !lives(pid) && !lives(grandchild)).await);
    assert!(boottime_ms() - from < 1500, "{}", boottime_ms() - from);
}

#[tokio::test]
async fn when_the_guardian_is_killed_the_program_dies_and_the_agent_gives_up() {
    let (server, place) = (Server::start(), Place::new());
    let (agent, pid) = beating(&place, &server, "run --key k").await;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let fields = stat.rsplit_once(')').expect("a name").1;
    let guardian =
        fields.split_whitespace().nth(1).and_then(|ppid| ppid.parse().ok()).expect("a parent");
    signal(guardian, Signal::KILL);
    let over = agent.over().await;
    assert_eq!(over.code(), 1, "{}", over.stderr);
    assert!(!lives(pid) && over.stderr.contains("guardian"), "{}", over.stderr);
    assert_eq!(lease(server.addr, "k").await["state"], "free");
}

#[tokio::test]
async fn a_revoked_lease_stops_the_program() {
    let (server, place) = (Server::start(), Place::new());
    let line = "trap 'echo term > $D/heard; exit 0' TERM; echo $$ > $D/pid; \
                while :; do sleep 0.02; done";
    let agent = place.agent(server.addr, SHORT, line);
    place.pid("pid").await;
    post(server.addr, "admin/revoke", &json!({"key": "k", "reason": "test"})).await;
    let over = agent.over().await;
    assert_eq!((over.code(), place.read("heard").as_str()), (74, "term\n"), "{}", over.stderr);
    assert!(over.stderr.contains("revoked"), "{}", over.stderr);
}

/// A terminal by python's pty: the program reads from it, and Ctrl-C goes to the program alone.
#[tokio::test]
async fn the_program_has_the_terminal() {
    let (server, place) = (Server::start(), Place::new());
    let line = "trap 'echo int > $D/heard; exit 7' INT; read line; echo \"$line\" > $D/line; \
                ps -o tpgid= -p $$ | tr -d ' ' > $D/front; echo $$ > $D/pid; while :; do sleep 0.02; done";
    let script = "import os, pty, sys, time\n\
        pid, tty = pty.fork()\n\
        if pid == 0: os.execv(sys.argv[1], sys.argv[1:])\n\
        os.write(tty, b'hello\\n')\n\
        path = os.environ['D'] + '/pid'\n\
        while not (os.path.exists(path) and open(path).read()): time.sleep(0.02)\n\
        os.write(tty, b'\\x03')\n\
        status = os.waitpid(pid, 0)[1]\n\
        sys.exit(os.waitstatus_to_exitcode(status))\n";
    let mut command = std::process::Command::new("python3");
    let url = format!("http://{}", server.addr);
    command.args([
        "-c",
        script,
        env!("CARGO_BIN_EXE_tenure"),
        "--server",
        &url,
        "run",
        "--key",
        "k",
    ]);
    command.args(["--", "/bin/sh", "-c", line]);
    let over = place.start(command).over().await;
    assert_eq!(over.code(), 7, "{} {}", over.stdout, over.stderr);
    assert_eq!((place.read("line").as_str(), place.read("heard").as_str()), ("hello\n", "int\n"));
    assert_eq!(place.read("front"), place.read("pid"), "the program is in front");
    assert_eq!(lease(server.addr, "k").await["state"], "free");
}
