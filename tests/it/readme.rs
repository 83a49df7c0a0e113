//! Every command of the README and of the walk-throughs is run, as it stands there.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    time::Duration,
};

use crate::support::ports::free_port;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const ADDRESS: &str = "127.0.0.1:7373";
const STORES: &str = "docs/walkthroughs/stores.md";

fn page(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path))
        .unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The part of a page under a heading, to the next one.
fn under<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n{heading}\n")).expect("the heading");
    rest.split("\n## ").next().expect("its end")
}

/// Its `sh` blocks.
fn blocks(text: &str) -> Vec<String> {
    let fenced = text.split("```sh\n").skip(1);
    fenced.map(|rest| rest.split("\n```").next().expect("a closing fence").to_owned()).collect()
}

/// What stands in for `cargo run --release --`: the binary under test, which cargo built already.
fn with_binary(block: &str, address: &str) -> String {
    block
        .replace("cargo run --release --", env!("CARGO_BIN_EXE_tenure"))
        .replace("./target/release/tenure", env!("CARGO_BIN_EXE_tenure"))
        .replace(ADDRESS, address)
}

fn sh(script: &str, dir: &Path, address: &str) -> Output {
    Command::new("sh")
        .args(["-euc", &with_binary(script, address)])
        .current_dir(dir)
        .env("TENURE_SERVER", format!("http://{address}"))
        .output()
        .expect("sh runs")
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The README's `serve`, on a free port so that several tests can run.
fn serve(block: &str, dir: &Path) -> (Server, String) {
    let command = format!("exec {} --listen 127.0.0.1:0", with_binary(block, ADDRESS));
    let child = Command::new("sh")
        .args(["-euc", &command])
        .current_dir(dir)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut server = Server(child);
    let stderr = server.0.stderr.take().expect("a pipe");
    let (found, address) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if let Some(address) = line.strip_prefix("listening on http://") {
                let _ = found.send(address.to_owned());
            }
        }
    });
    let address = address.recv_timeout(Duration::from_secs(20)).expect("the server listens");
    (server, address)
}

#[test]
fn every_command_of_the_five_minutes_works() {
    let blocks = blocks(under(&page("README.md"), "## Five minutes"));
    assert!(blocks.len() >= 6, "{}", blocks.len());
    let dir = tempfile::tempdir().expect("a directory");
    let demo = sh(&blocks[0], dir.path(), ADDRESS);
    let said = String::from_utf8_lossy(&demo.stdout);
    assert!(demo.status.success() && said.contains("worker-4 died holding"), "{demo:?}");

    let (server, address) = serve(&blocks[1], dir.path());
    assert!(dir.path().join("tenure-data").is_dir());
    // One shell runs them all, as a reader's terminal would.
    let output = sh(&blocks[2..].join("\n"), dir.path(), &address);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    for part in [
        "worker-1",
        "exit code 73: somebody has it",
        "\"valid_for_ms\"",
        "\"released\":true",
        "shards/17",
        "io.tenure.lease.granted",
        "tenure_lease_acquisitions_total{",
    ] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    drop(server);
}

/// Ports that are free, for those that a page names.
fn with_ports(script: &str, named: &[u16]) -> String {
    named.iter().fold(script.to_owned(), |script, named| {
        script.replace(&format!("127.0.0.1:{named}"), &format!("127.0.0.1:{}", free_port()))
    })
}

/// Ends a shell with everything that it left in the background.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw);
        let kill = rustix::process::Signal::KILL;
        let _ = pid.map(|pid| rustix::process::kill_process_group(pid, kill));
        let _ = self.0.wait();
    }
}

/// Runs the blocks of a text as one terminal would; returns what they printed.
fn walk(text: &str, ports: &[u16], replace: &[(&str, &str)]) -> String {
    run(&blocks(text).join("\n"), ports, replace)
}

/// Runs a script as a terminal would; returns what it printed.
pub fn run(script: &str, ports: &[u16], replace: &[(&str, &str)]) -> String {
    let script = replace.iter().fold(script.to_owned(), |script, (named, real)| {
        assert!(script.contains(named), "{named} is not in {script}");
        script.replace(named, real)
    });
    // The default, so that it is moved with the other ports.
    let script = format!("export TENURE__STORE__NATS__URL=nats://127.0.0.1:4222\n{script}");
    let script = with_ports(&script, ports);
    let dir = tempfile::tempdir().expect("a directory");
    let tools = Path::new(ROOT).join(".tools/bin");
    let binary = Path::new(env!("CARGO_BIN_EXE_tenure")).parent().expect("a directory");
    let path = std::env::var("PATH").expect("a PATH");
    let path = format!("{}:{}:{path}", binary.display(), tools.display());
    // Into files: what runs in the background holds a pipe open.
    let (out, err) = (dir.path().join("out"), dir.path().join("err"));
    let shell = Command::new("sh")
        .args(["-euc", &script])
        .current_dir(dir.path())
        .env("PATH", path)
        .stdin(Stdio::null())
        .stdout(File::create(&out).expect("a file"))
        .stderr(File::create(&err).expect("a file"))
        .process_group(0)
        .spawn()
        .expect("sh runs");
    let mut group = Group(shell);
    let status = group.0.wait().expect("it ends");
    let said = std::fs::read_to_string(out).expect("what it said");
    let talk = std::fs::read_to_string(err).expect("what it said besides");
    assert!(status.success(), "{status}\n{said}\n{talk}");
    said
}

/// Each of these parts is in what was said.
pub fn assert_said(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
}

#[test]
fn the_commands_of_the_embedded_store_work() {
    let said = walk(under(&page(STORES), "## Embedded"), &[7377], &[]);
    assert_said(&said, &["jobs/1", "worker-1", "keys     1", "epoch  1"]);
}

#[test]
fn the_commands_of_the_store_on_nats_work() {
    let said = walk(under(&page(STORES), "## NATS JetStream"), &[4222, 8222, 7374, 7375], &[]);
    assert_said(&said, &["jobs/1", "worker-1", "RUNS_OUT_IN", "alive"]);
    assert_eq!(said.matches("  alive  ").count(), 2, "both nodes know both: {said}");
}

#[test]
fn the_commands_of_the_store_on_dynamodb_work() {
    let endpoint = crate::support::dynamo_endpoint::Endpoint::start();
    let named = [("http://127.0.0.1:8000", &*endpoint.url())];
    let said = walk(under(&page(STORES), "## DynamoDB"), &[7376], &named);
    assert_said(&said, &["jobs/1", "worker-1", "\"gate\""]);
}

#[test]
fn the_commands_of_sessions_and_fences_work() {
    let said = walk(&page("docs/walkthroughs/sessions-and-fences.md"), &[7378], &[]);
    let parts = [
        "\"valid_for_ms\"",
        "\"notices\":[]",
        "\"count\":",
        "worker-1",
        "destroyed",
        "exit code 73: not yet",
        "worker-2",
        "io.tenure.lease.session-ended",
        "io.tenure.lease.fenced",
        "io.tenure.lease.cooled",
    ];
    assert_said(&said, &parts);
}

#[test]
fn the_commands_of_workers_work() {
    let said = walk(&page("docs/walkthroughs/workers.md"), &[7379], &[]);
    let parts = [
        "jobs/nightly is mine, under token 1",
        "worker-1 serves shards/1",
        "worker-1 serves shards/4",
        "worker-2 serves shards/",
        "active, under token",
        "standing by",
    ];
    assert_said(&said, &parts);
    let members = said.lines().filter(|line| line.contains("  worker-") && line.contains("  2  "));
    assert_eq!(members.count(), 2, "each has its half: {said}");
    let held = said.lines().filter(|line| line.contains("  held ") && line.contains("worker-2"));
    assert_eq!(held.count(), 4, "handed over: {said}");
}

#[test]
fn every_link_between_pages_leads_to_a_file() {
    let mut pages =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "tests/README.md"]
            .map(Into::into)
            .to_vec();
    for folder in ["docs", "docs/walkthroughs"] {
        let entries = std::fs::read_dir(Path::new(ROOT).join(folder)).expect(folder);
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let names = names.map(|name| name.into_string().expect("a name"));
        pages.extend(
            names.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}/{name}")),
        );
    }
    assert!(pages.len() > 20, "{pages:?}");
    for file in pages {
        let path = Path::new(ROOT).join(&file);
        for link in page(&file).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if !link.starts_with("http") && !link.starts_with('#') {
                let target =
                    path.parent().expect("a folder").join(link.split('#').next().unwrap_or(link));
                assert!(target.exists(), "{file} links to {link}");
            }
        }
    }
}
