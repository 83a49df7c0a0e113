//! A network of its own for each run: a namespace for each server, node and crew of workers, and a router
//! between them whose rules are the faults.
//!
//! A way from one place to another is cut by a rule of the router that drops what comes in from the one and
//! goes to the other; the way back is another rule, so a cut may have one direction. What is to be slow or
//! lossy is sent through the slow lane (`switch.py`).
//!
//! The run itself, its namespaces, mounts and processes live in namespaces of the run's own ([`enclose`]):
//! nothing of them is seen outside, and all of it is gone once the run has ended, however it ended.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io::{BufRead, BufReader, Write},
    net::Ipv4Addr,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// The place of the run itself.
pub const CONTROL: &str = "ctl";
/// The router's table whose only route is the slow lane.
const LANE: u32 = 100;

/// A command that runs in namespaces of its own: network, mounts and processes. What it starts ends with it.
pub fn enclose(program: &OsStr) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
    command.arg(program);
    command
}

/// Fails with what to do where this machine does not let us make namespaces.
pub fn demand() {
    let tried =
        enclose(OsStr::new("sh")).args(["-c", "ip link add tried type dummy || ip link"]).output();
    let said = match tried {
        Ok(tried) if tried.status.success() && Path::new("/dev/net/tun").exists() => return,
        Ok(tried) => String::from_utf8_lossy(&tried.stderr).into_owned(),
        Err(why) => why.to_string(),
    };
    panic!(
        "the chaos tests make network namespaces: they need root, `unshare` of util-linux, `ip` of iproute2 \
         and /dev/net/tun. Here: {said}"
    );
}

fn run(command: &mut Command) {
    let done = command.output().unwrap_or_else(|why| panic!("{command:?}: {why}"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn ip(args: &str) {
    run(Command::new("ip").args(args.split(' ')));
}

/// What the router does to packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It drops them, and tells nobody.
    Cut,
    /// They go through the slow lane.
    Slow,
}

pub struct Net {
    places: BTreeMap<String, Ipv4Addr>,
    lane: Lane,
}

struct Lane {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Net {
    /// Makes the network. To be called in namespaces of one's own.
    pub fn new(places: &[String], seed: u64) -> Self {
        std::fs::create_dir_all("/run/netns").expect("/run/netns");
        run(Command::new("mount").args(["-t", "tmpfs", "tmpfs", "/run/netns"]));
        ip("netns add router");
        ip("link set lo up");
        let mut all = BTreeMap::new();
        for (n, place) in [CONTROL.to_owned()].iter().chain(places).enumerate() {
            let n = u8::try_from(n).expect("few places");
            all.insert(place.clone(), Ipv4Addr::new(10, 99, n, 2));
            let inside = if place == CONTROL {
                String::new()
            } else {
                ip(&format!("netns add {place}"));
                ip(&format!("-n {place} link set lo up"));
                format!("-n {place} ")
            };
            ip(&format!("{inside}link add eth0 type veth peer name v-{place} netns {}", "router"));
            ip(&format!("{inside}addr add 10.99.{n}.2/24 dev eth0"));
            ip(&format!("{inside}link set eth0 up"));
            ip(&format!("-n router addr add 10.99.{n}.1/24 dev v-{place}"));
            ip(&format!("-n router link set v-{place} up"));
            ip(&format!("{inside}route add default via 10.99.{n}.1"));
        }
        let lane = Lane::start(seed);
        ip("link set lane netns router");
        ip("-n router link set lane up");
        ip(&format!("-n router route add default dev lane table {LANE}"));
        run(Command::new("ip").args(["netns", "exec", "router", "sh", "-c"]).arg(
            "echo 1 >/proc/sys/net/ipv4/ip_forward; \
             for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$f; done",
        ));
        Self { places: all, lane }
    }

    pub fn addr(&self, place: &str) -> Ipv4Addr {
        self.places[place]
    }

    /// A command that runs at a place.
    pub fn command(&self, place: &str, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", place]).arg(program.as_ref());
        command
    }

    fn rules(&self, verb: &str, from: &[String], to: &[String], way: Way) {
        let what = match way {
            Way::Cut => "pref 10 blackhole".to_owned(),
            Way::Slow => format!("pref 20 lookup {LANE}"),
        };
        let mut lines = String::new();
        for from in from {
            for to in to.iter().filter(|to| *to != from) {
                lines += &format!("rule {verb} iif v-{from} to {} {what}\n", self.addr(to));
            }
        }
        let mut command = Command::new("ip");
        command.args(["-n", "router", "-batch", "-"]).stdin(Stdio::piped());
        let mut child = command.spawn().expect("ip");
        child.stdin.take().expect("piped").write_all(lines.as_bytes()).expect("written");
        assert!(child.wait().expect("it ends").success(), "{lines}");
    }

    /// From now on this happens to what goes from these places to those.
    pub fn set(&self, from: &[String], to: &[String], way: Way) {
        self.rules("add", from, to, way);
    }

    pub fn unset(&self, from: &[String], to: &[String], way: Way) {
        self.rules("del", from, to, way);
    }

    /// What the slow lane does.
    pub fn slow_lane(&mut self, delay_ms: u64, jitter_ms: u64, loss_percent: u64) {
        writeln!(self.lane.to, "{delay_ms} {jitter_ms} {loss_percent}").expect("the lane listens");
    }

    /// How many packets the slow lane passed on, dropped and delayed so far.
    pub fn slow_lane_counts(&mut self) -> [u64; 3] {
        writeln!(self.lane.to, "count").expect("the lane listens");
        let mut line = String::new();
        self.lane.from.read_line(&mut line).expect("the lane answers");
        let counts: Vec<u64> =
            line.split_whitespace().map(|n| n.parse().expect("a count")).collect();
        counts.try_into().expect("three")
    }
}

impl Lane {
    fn start(seed: u64) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chaos/switch.py");
        let mut command = Command::new("python3");
        command.arg(script).args(["lane", &seed.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python3");
        let to = child.stdin.take().expect("piped");
        let mut from = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        from.read_line(&mut line).expect("readable");
        assert_eq!(line.trim(), "ready", "the slow lane did not start");
        Self { child, to, from }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
