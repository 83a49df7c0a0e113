//! The page of the API shows the examples of the document.

use crate::support::{chromium::Chromium, harness::Server};

#[tokio::test]
async fn the_page_of_the_api_shows_the_examples_of_an_operation() {
    let server = Server::start();
    let mut browser = Chromium::start(&[]);
    for (operation, examples) in [
        // The names of the examples, a request, its answer, and a refusal.
        (
            "leases/acquire",
            ["Take a key that is free", "\"shards/17\"", "\"lease_id\"", "urn:tenure:problem:held"],
        ),
        (
            "sessions/get_session",
            [
                "346ba175f4f687c97280aaac638d59fa1be4db0d",
                "A member of a pool",
                "\"fail_after\"",
                "urn:tenure:problem:unknown-session",
            ],
        ),
    ] {
        let url = format!("http://{}/docs/#/{operation}", server.addr);
        let tab = browser.open(&url).await;
        for example in examples {
            let shows = format!("document.body.textContent.includes({example:?})");
            browser.until(&tab, &shows).await;
        }
        browser.close(tab).await;
    }
}
