//! Contexts: several clusters, each under its name.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    sync::mpsc,
    thread,
};

use super::user::User;
use crate::support::harness::Server;

#[test]
fn each_command_goes_to_the_cluster_that_was_chosen() {
    let (a, b, user) = (Server::start(), Server::start(), User::new());
    let url = |server: &Server| format!("http://{}", server.addr);
    user.run(&["context", "use", "a"]).refused(64, "no context \"a\"");
    user.at(&a, &["context", "add", "a"]).ok();
    user.at(&b, &["context", "add", "b"]).ok();
    user.run(&["context", "add", "c"]).refused(64, "--server");
    user.run(&["context", "use", "a"]).ok();
    user.run(&["acquire", "k", "--owner", "w", "--ttl", "60s"]).ok();
    let owner =
        |arguments: &[&str]| user.run(&[&["get", "k", "-o", "key"], arguments].concat()).code;
    assert_eq!((owner(&[]), owner(&["--context", "b"])), (0, 66));
    assert_eq!(owner(&["--server", &url(&b)]), 66);
    user.run(&["get", "k", "--context", "a", "--server", &url(&b)]).refused(64, "--context");
    let by = |name: &str, value: &str, arguments: &[&str]| {
        let mut command = user.command(&[&["get", "k", "-o", "key"], arguments].concat());
        command.env(name, value);
        User::end(command).code
    };
    assert_eq!(by("TENURE_CONTEXT", "b", &[]), 66);
    assert_eq!(by("TENURE_SERVER", &url(&b), &[]), 66, "the environment wins over the file");
    assert_eq!(by("TENURE_SERVER", &url(&b), &["--context", "a"]), 0, "the command line over both");
    let listed = user.run(&["context", "ls", "-o", "json"]).json();
    let names = [0_usize, 1]
        .map(|at| (&listed["contexts"][at]["name"], &listed["contexts"][at]["current"]));
    assert_eq!(names, [(&"a".into(), &true.into()), (&"b".into(), &false.into())]);
    let shown = user.run(&["context", "show", "-o", "json"]).json();
    assert_eq!((&shown["name"], &shown["server"]), (&"a".into(), &url(&a).into()));
    user.run(&["context", "use", "--none"]).ok();
    let none = user.run(&["context", "show", "-o", "json"]).json();
    assert_eq!((&none["name"], &none["server"]), (&().into(), &"http://127.0.0.1:7373".into()));
}

#[test]
fn a_file_that_others_can_change_sends_nobody_anywhere() {
    let (server, user) = (Server::start(), User::new());
    user.at(&server, &["context", "add", "a"]).ok();
    user.run(&["context", "use", "a"]).ok();
    let file = user.home.path().join(".config/tenure/contexts.toml");
    assert_eq!(file.metadata().expect("it is there").permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("a mode");
    user.run(&["ls"]).refused(64, "contexts.toml");
    user.run(&["ls"]).refused(64, "chmod");
    user.at(&server, &["ls"]).ok();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("a mode");
    fs::write(&file, "[a]\nserver = \"h:1\"\ntoken = \"tnr_secret\"\n").expect("it is written");
    let with_secret = user.run(&["ls"]);
    with_secret.refused(64, "unknown field");
    assert!(!with_secret.err.contains("tnr_secret"), "{with_secret:?}");
}

/// A server that answers everything with 404, and tells how each request began.
fn listener() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let (told, heard) = mpsc::channel();
    thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            let mut head = [0; 4096];
            let length = socket.read(&mut head).unwrap_or_default();
            let _ = told.send(String::from_utf8_lossy(&head[..length]).to_lowercase());
            let _ = socket.write_all(b"HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n");
        }
    });
    (url, heard)
}

#[test]
fn the_token_of_a_context_goes_to_its_own_servers_alone() {
    let user = User::new();
    let ((own, heard), (other, heard_by_other)) = (listener(), listener());
    let file = user.home.path().join("token");
    fs::write(&file, "tnr_of_the_context\n").expect("it is written");
    let file = file.to_str().expect("UTF-8");
    user.run(&["--server", &own, "--token-file", file, "context", "add", "own"]).ok();
    user.run(&["context", "use", "own"]).ok();
    user.run(&["ls"]);
    assert!(heard.recv().expect("a request").contains("bearer tnr_of_the_context"));
    user.run(&["--server", &other, "ls"]);
    let mut by_environment = user.command(&["ls"]);
    by_environment.env("TENURE_SERVER", &other);
    User::end(by_environment);
    for _ in 0..2 {
        let request = heard_by_other.recv().expect("a request");
        assert!(request.contains("get /v1/leases") && !request.contains("bearer"), "{request}");
    }
    // The token for the servers of the environment is not for those of the context either.
    user.run(&["--server", &other, "context", "add", "bare"]).ok();
    let mut by_context = user.command(&["--context", "bare", "ls"]);
    by_context.env("TENURE_SERVER", &own).env("TENURE_TOKEN_FILE", file);
    User::end(by_context);
    assert!(!heard_by_other.recv().expect("a request").contains("bearer"));
}
