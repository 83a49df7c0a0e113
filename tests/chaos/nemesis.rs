//! What does the faults, and sees to it that each was one.

use std::path::PathBuf;

use rustix::process::Signal;
use tenure::clock::Chance;

use crate::{
    clock::{ms, now, sleep_ms, within},
    crew::Crew,
    fault::Fault,
    history::{Event, Log},
    net::{Net, Way},
    node::{NODE_TTL_MS, Node},
    operator,
    stores::{Kind, Servers},
};

const YEAR_MS: i64 = 365 * 86_400_000;

/// A cluster, its workers, and the network between them.
pub struct World {
    pub net: Net,
    pub servers: Servers,
    pub nodes: Vec<Node>,
    pub crews: Vec<Crew>,
    pub chance: Chance,
    pub log: Log,
    pub ttl_ms: u64,
    /// Each fault is to be done once, and soon.
    pub in_a_hurry: bool,
    /// Where the run leaves its files.
    pub dir: PathBuf,
    /// The epoch of an embedded store.
    pub epoch: u16,
    /// What shows that each fault was one.
    pub struck: Vec<String>,
}

/// Somebody who can be stopped and killed.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Node(usize),
    Crew(usize),
    Server(usize),
}

impl World {
    pub fn below(&mut self, bound: usize) -> usize {
        (self.chance.next_u64() % bound as u64) as usize
    }

    /// How long something lasts. In a run that has each fault once, nothing lasts for long.
    fn span_ms(&mut self, from: u64, to: u64) -> u64 {
        let range = if self.in_a_hurry { (to - from) / 3 } else { to - from };
        from + self.chance.next_u64() % range.max(1)
    }

    fn node_places(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.place.clone()).collect()
    }

    fn crew_places(&self) -> Vec<String> {
        self.crews.iter().map(|crew| crew.place.clone()).collect()
    }

    fn server_places(&self) -> Vec<String> {
        self.servers.all.iter().map(|server| server.place.clone()).collect()
    }

    pub fn begins(&self, fault: &str, at: &str) {
        self.log.push(now(), Event::Fault { fault: fault.to_owned(), at: at.to_owned() });
    }

    /// Does a fault, and waits until all is as before.
    pub async fn suffer(&mut self, fault: Fault) {
        let before = self.struck.len();
        match fault {
            Fault::Stop => self.stop_somebody().await,
            Fault::Kill => self.kill_somebody().await,
            Fault::CutOff => self.cut_off().await,
            Fault::Island => self.island().await,
            Fault::OneWay => self.one_way().await,
            Fault::Delay => self.slow(fault).await,
            Fault::Loss => self.slow(fault).await,
            Fault::Clock => self.set_clock().await,
            Fault::Roll => self.roll().await,
            Fault::Leader => self.leader().await,
            Fault::Restore => operator::restore(self).await,
            Fault::FullDisk => self.fill_disk().await,
        }
        assert!(self.struck.len() > before, "{fault:?} did nothing");
        for node in &mut self.nodes {
            node.ready().await;
        }
        for crew in &mut self.crews {
            if let Some(why) = crew.gave_up() {
                panic!("workers gave up: {why}");
            }
        }
    }

    /// Each kind of victim in turn, so that a short run has them all.
    async fn victim(&mut self) -> Victim {
        let kinds = if self.servers.all.is_empty() { 2 } else { 3 };
        match (self.struck.len() + self.below(2)) % kinds {
            0 => Victim::Node(self.below(self.nodes.len())),
            1 => Victim::Crew(self.below(self.crews.len())),
            _ => {
                let leader = self.servers.leader().await;
                Victim::Server(leader.unwrap_or_else(|| self.below(self.servers.all.len())))
            }
        }
    }

    fn signal(&self, victim: Victim, signal: Signal) -> u32 {
        let process = match victim {
            Victim::Node(n) => self.nodes[n].process(),
            Victim::Crew(n) => self.crews[n].process.as_ref().expect("it runs"),
            Victim::Server(n) => self.servers.all[n].process.as_ref().expect("it runs"),
        };
        process.signal(signal);
        process.pid()
    }

    async fn stop_somebody(&mut self) {
        let victim = self.victim().await;
        let span = self.span_ms(self.ttl_ms / 2, 3 * self.ttl_ms);
        self.begins("stop", &format!("{victim:?}"));
        let pid = self.signal(victim, Signal::STOP);
        let stopped = within(ms(30_000), async || is_stopped(pid)).await;
        assert!(stopped, "{victim:?} does not stop");
        sleep_ms(span).await;
        self.signal(victim, Signal::CONT);
        self.struck.push(format!("{victim:?} stopped for {span} ms"));
    }

    async fn kill_somebody(&mut self) {
        let victim = self.victim().await;
        self.begins("kill", &format!("{victim:?}"));
        match victim {
            Victim::Node(n) => self.nodes[n].kill(),
            Victim::Crew(n) => self.crews[n].kill(),
            Victim::Server(n) => self.servers.kill(n),
        }
        let away = self.span_ms(0, self.ttl_ms + NODE_TTL_MS + 1_000);
        sleep_ms(away).await;
        match victim {
            Victim::Node(n) => self.nodes[n].launch(&self.net),
            Victim::Crew(n) => self.crews[n].start(&self.net),
            Victim::Server(n) => {
                self.servers.launch(n, &self.net);
                self.servers.ready(n).await;
            }
        }
        self.struck.push(format!("{victim:?} killed, and away for {away} ms"));
    }

    /// Cuts these ways for a while. That they are cut, and then no longer, is tried from the first place on
    /// either side.
    async fn cut(
        &mut self,
        name: &str,
        ways: &[(Vec<String>, Vec<String>)],
        try_to: (&str, String),
    ) {
        let span = self.span_ms(NODE_TTL_MS / 2, 2 * self.ttl_ms + NODE_TTL_MS);
        self.begins(name, &format!("{ways:?}"));
        for (from, to) in ways {
            self.net.set(from, to, Way::Cut);
        }
        let passes = passes(&self.net, try_to.0, &try_to.1);
        sleep_ms(span).await;
        for (from, to) in ways {
            self.net.unset(from, to, Way::Cut);
        }
        assert!(!passes, "{ways:?} were not cut");
        let again = within(ms(60_000), async || self::passes(&self.net, try_to.0, &try_to.1)).await;
        assert!(again, "{ways:?} are still cut");
        self.struck.push(format!("{name} for {span} ms"));
    }

    async fn cut_off(&mut self) {
        let victim = self.below(self.nodes.len());
        let node = vec![self.nodes[victim].place.clone()];
        let Some(server) = self.servers.all.first() else {
            let half = self.crew_places()[..self.crews.len() / 2 + 1].to_vec();
            let ways = [(node.clone(), half.clone()), (half.clone(), node)];
            let port = self.nodes[victim].url.trim_start_matches("http://").to_owned();
            return self.cut("cut-off", &ways, (&half[0], port)).await;
        };
        let server = server.addr.to_string();
        let ways = [(node.clone(), self.server_places()), (self.server_places(), node.clone())];
        self.cut("cut-off", &ways, (&node[0], server)).await;
    }

    async fn island(&mut self) {
        let victim = self.below(self.nodes.len());
        let node = vec![self.nodes[victim].place.clone()];
        let mut others = self.node_places();
        others.remove(victim);
        others.extend(self.crew_places());
        let ways = [(node.clone(), others.clone()), (others.clone(), node)];
        let at = self.nodes[victim].url.trim_start_matches("http://").to_owned();
        self.cut("island", &ways, (&others[0], at)).await;
    }

    async fn one_way(&mut self) {
        let victim = self.below(self.nodes.len());
        let node = vec![self.nodes[victim].place.clone()];
        let at = self.nodes[victim].url.trim_start_matches("http://").to_owned();
        let shapes = if self.servers.all.is_empty() { 2 } else { 4 };
        match (self.struck.len() + self.below(2)) % shapes {
            // What workers ask arrives, and no answer.
            0 => {
                let crews = self.crew_places();
                let ways = [(node, crews.clone())];
                self.cut("one-way", &ways, (&crews[0], at)).await;
            }
            // Nothing that workers ask arrives; what is being answered is.
            1 => {
                let crews = self.crew_places();
                let ways = [(crews.clone(), node)];
                self.cut("one-way", &ways, (&crews[0], at)).await;
            }
            // The store hears the node, and the node does not hear the store.
            2 => {
                let server = self.servers.all[0].addr.to_string();
                let ways = [(self.server_places(), node.clone())];
                self.cut("one-way", &ways, (&node[0], server)).await;
            }
            // Two nodes do not reach each other; the third, the store and the workers reach both.
            _ => {
                let other = vec![self.nodes[(victim + 1) % self.nodes.len()].place.clone()];
                let ways = [(node.clone(), other.clone()), (other.clone(), node)];
                self.cut("one-way", &ways, (&other[0], at)).await;
            }
        }
    }

    async fn slow(&mut self, fault: Fault) {
        let mut all = self.node_places();
        all.extend(self.server_places());
        let place = vec![all[self.below(all.len())].clone()];
        all.extend(self.crew_places());
        let span = self.span_ms(self.ttl_ms, 3 * self.ttl_ms);
        if fault == Fault::Delay {
            let delay = self.span_ms(50, 400);
            self.net.slow_lane(delay, delay / 2, 0);
        } else {
            let loss = self.span_ms(10, 50);
            self.net.slow_lane(0, 0, loss);
        }
        let before = self.net.slow_lane_counts();
        self.begins(fault.name(), &place[0]);
        self.net.set(&place, &all, Way::Slow);
        self.net.set(&all, &place, Way::Slow);
        sleep_ms(span).await;
        self.net.unset(&place, &all, Way::Slow);
        self.net.unset(&all, &place, Way::Slow);
        let after = self.net.slow_lane_counts();
        let [passed, dropped, late] = std::array::from_fn(|n| after[n] - before[n]);
        let hit = if fault == Fault::Delay { late } else { dropped };
        if hit > 0 {
            self.struck.push(format!(
                "{} at {}: {passed}, {dropped}, {late}",
                fault.name(),
                place[0]
            ));
        } else {
            panic!("{fault:?} at {place:?}: {passed} packets passed");
        }
    }

    async fn set_clock(&mut self) {
        let victim = self.below(self.nodes.len());
        let jumps = |node: &Node| node.url.clone();
        let url = jumps(&self.nodes[victim]);
        let offset = [2_000, -2_000, YEAR_MS, -YEAR_MS][(self.struck.len() + self.below(2)) % 4];
        let before = self.nodes[victim].metric("tenure_clock_jumps_total").await;
        self.begins("clock", &format!("{url} by {offset} ms"));
        self.nodes[victim].set_wall(offset);
        let span = self.span_ms(self.ttl_ms / 2, 2 * self.ttl_ms);
        sleep_ms(span).await;
        self.nodes[victim].set_wall(0);
        // Both steps show.
        let node = &self.nodes[victim];
        let mut after = before;
        within(ms(30_000), async || {
            after = node.metric("tenure_clock_jumps_total").await;
            after >= before + 2
        })
        .await;
        assert!(
            after >= before + 2,
            "node {victim} did not notice that its clock was set by {offset} ms"
        );
        self.struck.push(format!("node {victim}'s clock set by {offset} ms for {span} ms"));
    }

    async fn roll(&mut self) {
        self.begins("roll", "every node");
        for n in 0..self.nodes.len() {
            self.nodes[n].stop().await;
            let away = self.span_ms(0, 1_500);
            sleep_ms(away).await;
            self.nodes[n].launch(&self.net);
            self.nodes[n].ready().await;
        }
        self.struck.push("every node was stopped and started again".to_owned());
    }

    async fn leader(&mut self) {
        match self.servers.kind {
            Kind::Nats => {
                self.begins("leader", "the stream");
                let (before, after) = self.servers.step_down().await;
                assert!(before.is_some() && after.is_some(), "{before:?} led, then {after:?}");
                if before != after {
                    self.struck.push(format!("server {before:?} led, then {after:?}"));
                } else {
                    self.struck
                        .push(format!("server {before:?} led, stepped down and was chosen again"));
                }
            }
            Kind::Dynamodb => {
                self.begins("leader", "the endpoint");
                self.servers.kill(0);
                self.servers.launch(0, &self.net);
                self.servers.ready(0).await;
                self.struck.push("the endpoint was started again at once".to_owned());
            }
            Kind::Embedded => {
                self.begins("leader", "the node");
                self.nodes[0].kill();
                self.nodes[0].launch(&self.net);
                self.struck.push("the node was started again at once".to_owned());
            }
        }
        let span = self.span_ms(500, self.ttl_ms);
        sleep_ms(span).await;
    }

    async fn fill_disk(&mut self) {
        let span = self.span_ms(self.ttl_ms / 2, 2 * self.ttl_ms);
        let Some(victim) =
            (!self.servers.all.is_empty()).then(|| self.below(self.servers.all.len()))
        else {
            self.begins("full-disk", "the node");
            let full = fill(self.nodes[0].disk.as_ref().expect("a disk"), span).await;
            assert!(full, "the disk was not full");
            self.struck.push(format!("the node's disk full for {span} ms"));
            return;
        };
        self.begins("full-disk", &self.servers.all[victim].place);
        let full = fill(&self.servers.all[victim].disk, span).await;
        assert!(full, "the disk was not full");
        // A NATS server that met a full disk has to be started again.
        self.servers.kill(victim);
        self.servers.launch(victim, &self.net);
        self.servers.ready(victim).await;
        self.struck.push(format!("the disk of {victim} full for {span} ms"));
    }
}

/// Fills a disk for a while; whether it was full.
async fn fill(disk: &crate::disk::Disk, span_ms: u64) -> bool {
    disk.fill();
    let full = disk.is_full();
    sleep_ms(span_ms).await;
    disk.free();
    full
}

/// Whether a connection from a place to an address is made within a short time.
fn passes(net: &Net, place: &str, to: &str) -> bool {
    let program = std::env::current_exe().expect("a program");
    let tried = net.command(place, program).args(["probe", to]).status().expect("it starts");
    tried.success()
}

/// [`passes`], at its place.
pub fn probe(to: &str) -> bool {
    let to = to.parse().expect("an address");
    std::net::TcpStream::connect_timeout(&to, ms(700)).is_ok()
}

/// Whether all threads of a process are stopped: the signal is sent before they are.
fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let state = |thread: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
    };
    threads.flatten().all(|thread| matches!(state(thread), None | Some('T' | 't' | 'Z' | 'X')))
}
