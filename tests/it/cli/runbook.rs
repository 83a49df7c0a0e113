//! The runbook that the program and each coordinator have.

use crate::{
    cli::user::User,
    support::{harness::Server, http},
};

#[tokio::test]
async fn the_runbook_is_in_the_program_and_at_each_coordinator() {
    let (server, user) = (Server::start(), User::new());
    let run = |args: &[&str]| user.at(&server, args);
    let whole = run(&["runbook"]).ok().to_owned();
    let one = run(&["help", "runbook", "tenurechurnhigh"]).ok().to_owned();
    assert!(one.starts_with("## TenureChurnHigh\n") && one.contains("**Do.**"), "{one}");
    assert!(whole.starts_with("# Runbook\n") && whole.contains(&one));
    assert_eq!(run(&["runbook", "TenureChurnHigh"]).ok(), one);
    assert!(run(&["help", "runbook"]).ok().contains("Usage: tenure runbook"));
    let unknown = run(&["help", "runbook", "TenureNothing"]);
    assert_eq!(unknown.code, 64);
    assert!(unknown.err.contains("TenureNothing") && unknown.err.contains("TenureChurnHigh"));

    let get = async |path: &str| {
        let url = format!("http://{}/docs/runbook{path}", server.addr);
        let answer = http::client().get(url).send().await.expect("an answer");
        let kind = answer.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_owned();
        (answer.status().as_u16(), kind, answer.text().await.expect("text"))
    };
    let text = "text/plain; charset=utf-8".to_owned();
    let (status, kind, served) = get("").await;
    assert_eq!((status, kind, served.trim_end()), (200, text.clone(), whole.as_str()));
    let (status, kind, served) = get("/TenureChurnHigh").await;
    assert_eq!((status, kind, served.trim_end()), (200, text, one.as_str()));
    assert_eq!(get("/TenureNothing").await.0, 404);
}
