//! A worker that is put to sleep by whoever likes to (SIGSTOP, a suspended machine, a long pause of the
//! hypervisor), and never works on what it lost meanwhile.
//!
//! ```sh
//! cargo run --example stopping_worker -- http://127.0.0.1:7373 jobs/1 3000
//! ```
//!
//! It says `work TOKEN` every 20 ms as long as it holds the lease, and `lost CAUSE` at the end. With a
//! fourth argument it stops itself (SIGSTOP) after so many steps, right before it looks at its lease.

use std::{env, io::Write, time::Duration};

use rustix::process::{Signal, getpid, kill_process};
use tenure::client::{Client, Hold};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [server, key, ttl_ms, stop_after @ ..] = arguments.as_slice() else {
        return Err("usage: stopping_worker SERVER KEY TTL_MS [STOP_AFTER]".into());
    };
    let stop_after: Option<u32> = stop_after.first().map(|steps| steps.parse()).transpose()?;
    let hold = Hold::key(key).owner("stopping-worker").ttl(Duration::from_millis(ttl_ms.parse()?));
    let lease = Client::new(server)?.hold(hold).await?;
    let mut out = std::io::stdout();
    for step in 1.. {
        if stop_after == Some(step) {
            writeln!(out, "stopping")?;
            kill_process(getpid(), Signal::STOP)?;
        }
        // The check comes last before the work, and nothing in between waits.
        if !lease.valid() {
            break;
        }
        writeln!(out, "work {}", lease.token())?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    writeln!(out, "lost {}", lease.lost().await)?;
    Ok(())
}
