//! A node that does not answer is told of, and so is that it answers again.

use super::shown::Page;
use crate::support::{harness::Server, ports::free_port};

#[tokio::test]
async fn a_lost_connection_is_shown_and_found_again() {
    let listen = format!("server.listen=127.0.0.1:{}", free_port());
    let server = Server::with(&[listen.as_str()]);
    server.acquire("before", "w", 600_000).await;
    let mut page = Page::open(&server, "").await;
    page.shows("#latest tbody tr", "before").await;
    page.shows("#link", "connected").await;
    assert_eq!(page.value("document.querySelector('#lost').hidden").await, true);
    let stopped = server.kill();
    page.shows("#lost", "No answer since").await;
    page.shows("#link", "no answer").await;
    // What was known stays on the page.
    page.shows("#latest tbody tr", "before").await;

    let server = stopped.restart();
    page.until("document.querySelector('#lost').hidden").await;
    page.shows("#link", "connected").await;
    server.acquire("after", "w", 600_000).await;
    page.shows("#latest tbody tr", "after").await;
    page.shows("#latest tbody tr", "before").await;
    page.is_clean().await;
}
