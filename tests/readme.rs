//! Every command of the README's five minutes is run, as it stands there.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    time::Duration,
};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const ADDRESS: &str = "127.0.0.1:7373";

/// The `sh` blocks between two headings.
fn blocks(text: &str) -> Vec<String> {
    let section = text.split("## Five minutes").nth(1).expect("the section");
    let section = section.split("\n## ").next().expect("its end");
    let fenced = section.split("```sh\n").skip(1);
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
    let text = std::fs::read_to_string(Path::new(ROOT).join("README.md")).expect("README.md");
    let blocks = blocks(&text);
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

#[test]
fn the_readme_names_files_that_exist() {
    for file in
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/metrics.md", "docs/runbook.md"]
    {
        let path = Path::new(ROOT).join(file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if !link.starts_with("http") && !link.starts_with('#') {
                let target =
                    path.parent().expect("a folder").join(link.split('#').next().unwrap_or(link));
                assert!(target.exists(), "{file} links to {link}");
            }
        }
    }
}
