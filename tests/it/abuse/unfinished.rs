//! Large bodies that stop before their end, of which there is room for a few.

use std::{net::SocketAddr, time::Duration};

use tokio::{io::AsyncWriteExt, net::TcpStream, task::JoinSet, time::sleep};

use super::{
    idle::sockets,
    probe::{Rounds, span, tails},
    rounds, size,
};

use crate::support::harness::{Server, eventually};

/// Of memory that one of them may take, beside the room for all of them, which is a quarter of the slack.
const BYTES: u64 = 64 << 10;
const BODY: usize = 1 << 20;
/// The server takes less time than this to read all that was sent at once.
const BURST: Duration = Duration::from_secs(1);

/// All but the end of a body, as far as it is taken.
async fn begin(addr: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(addr).await.expect("the server accepts");
    let head = "POST /v1/acquire-any HTTP/1.1\r\nhost: localhost\r\n";
    let _ = stream.write_all(format!("{head}content-length: {BODY}\r\n\r\n").as_bytes()).await;
    let _ = stream.write_all(&vec![b' '; BODY - 100]).await;
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_do_not_end_delay_nobody_and_take_what_there_is_for_bodies() {
    let server = Server::with(&["limits.body_bytes=16MiB"]);
    let twin = Server::start();
    let count = size(2000, 200);
    let mut rounds_of = Rounds::of("unfinished bodies", server.pid());
    tails(&server, &twin, span() / 4).await;
    for _ in 0..rounds() {
        rounds_of.quiet();
        let quiet = tails(&server, &twin, span()).await;
        let mut begun = JoinSet::new();
        for _ in 0..count {
            begun.spawn(begin(server.addr));
        }
        let begun = begun.join_all().await;
        // What was sent is in the kernel's buffers. The burst of requests is over once the server has read their heads.
        sleep(BURST).await;
        let busy = tails(&server, &twin, span()).await;
        rounds_of.round(quiet, busy);
        drop(begun);
    }
    rounds_of.verdict(count, BYTES);
    eventually("the server has few sockets", async || sockets(server.pid()) < 50).await;
}
