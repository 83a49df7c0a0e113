//! The client from a thread without a runtime.

use tenure::client::{Client, blocking::Background};

use crate::client::harness::{Server, hold};

use crate::support::clock::ms;

#[test]
fn heartbeats_go_on_while_the_caller_sleeps_and_a_dropped_guard_is_given_back() {
    let background = Background::start().unwrap();
    let server = background.wait(Server::start());
    let client = Client::new(&server.node.url).unwrap();
    let lease = background.wait(client.hold(hold("a", 900))).unwrap();
    std::thread::sleep(ms(3000));
    assert!(lease.valid());
    drop(lease);
    background.wait(server.until_state("a", "free"));
    let lease = background.wait(client.hold(hold("a", 900))).unwrap();
    assert!(background.wait(lease.release()).unwrap());
    drop(background);
    assert!(!lease.valid());
}
