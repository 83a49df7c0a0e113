//! Has the faults of a plan happen.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use tenure::clock::Chance;
use tokio::{task::spawn_local, time::sleep};

use super::{
    history::Event,
    host::{Host, Site},
    net::{Net, Place, Weather},
    plan::{Fault, Plan},
    signal::Signal,
    time::{now, until},
};

pub struct Nemesis {
    pub site: Rc<Site>,
    pub hosts: Vec<Rc<Host>>,
    pub workers: Vec<Rc<Signal>>,
    pub chance: RefCell<Chance>,
    /// Nothing is to be put back to what it was between.
    pub over: Cell<bool>,
}

impl Nemesis {
    pub fn tell(&self, fault: &str, at: &str) {
        let (fault, at) = (fault.to_owned(), at.to_owned());
        self.site.log.push(now(), Event::Fault { fault, at });
    }

    /// All of the plan, until the faults are over.
    pub async fn rage(self: Rc<Self>, plan: &Plan) {
        for (at, fault) in &plan.faults {
            until(*at).await;
            spawn_local(self.clone().inject(*fault));
        }
        until(plan.calm).await;
        self.calm();
    }

    /// The faults are over.
    fn calm(&self) {
        self.over.set(true);
        self.site.net.weather.set(Weather::default());
        self.site.net.heal();
        self.heal_store();
        self.site.plugins.iter().for_each(|plugin| plugin.behave());
        for host in &self.hosts {
            host.resume();
            host.start();
        }
        self.workers.iter().for_each(|worker| worker.go_on());
        self.site.log.push(now(), Event::Calm);
    }

    fn heal_store(&self) {
        let server = &self.site.server;
        server.full(false);
        server.slow(None);
        server.throttle(0.0);
        server.late(0.0);
        server.lose(0.0);
        (0..self.hosts.len()).for_each(|node| server.heal(node));
        server.start();
    }

    async fn inject(self: Rc<Self>, fault: Fault) {
        let net = &self.site.net;
        match fault {
            Fault::Weather(weather, span) => {
                self.tell("weather", "network");
                let before = net.weather.replace(weather);
                sleep(span).await;
                if !self.over.get() {
                    net.weather.set(before);
                }
            }
            Fault::Crash { node, down, boot } => {
                self.tell(if boot { "crash-and-boot" } else { "crash" }, &format!("n{node}"));
                let host = &self.hosts[node];
                host.crash();
                sleep(down).await;
                if boot && !host.is_up() {
                    host.clock.reboot(1_000_000);
                }
                host.start();
            }
            Fault::Leave { node, down } => {
                self.tell("leave", &format!("n{node}"));
                self.hosts[node].leave().await;
                sleep(down).await;
                self.hosts[node].start();
            }
            Fault::Pause { node, span, missed } => {
                self.tell(if missed { "suspend-unseen" } else { "pause" }, &format!("n{node}"));
                self.hosts[node].pause(span, missed).await;
            }
            Fault::Stop { worker, span } => {
                self.tell("stop", &format!("w{worker}"));
                // One that is stopped already is not stopped again, and is not woken by this.
                if !self.workers[worker].is_stopped() {
                    self.workers[worker].stop();
                    sleep(span).await;
                    self.workers[worker].go_on();
                }
            }
            Fault::Wall { node, by_ms } => {
                self.tell("wall-clock", &format!("n{node} by {by_ms} ms"));
                self.hosts[node].clock.set_wall(by_ms);
            }
            Fault::Cut { from, to, span } => {
                self.tell("cut", &format!("{from:?} to {to:?}"));
                net.cut(from, to);
                sleep(span).await;
                net.mend(from, to);
            }
            Fault::Alone { node, span } => {
                self.tell("alone", &format!("n{node}"));
                alone(net, node, self.hosts.len(), Net::cut);
                sleep(span).await;
                alone(net, node, self.hosts.len(), Net::mend);
            }
            Fault::Panic { node } => {
                self.tell("panic", &format!("n{node}"));
                self.hosts[node].panic();
            }
            fault => self.strike_store(fault).await,
        }
        self.tell("over", "");
    }

    async fn strike_store(&self, fault: Fault) {
        let server = &self.site.server;
        match fault {
            Fault::StoreCut { node, way, span } => {
                self.tell("store-cut", &format!("n{node} {way:?}"));
                server.cut(node, way);
                sleep(span).await;
                server.heal(node);
            }
            Fault::StoreStop(span) => {
                self.tell("store-stop", "store");
                server.stop();
                sleep(span).await;
                server.start();
            }
            Fault::StoreFull(span) => {
                self.tell("disk-full", "store");
                server.full(true);
                sleep(span).await;
                server.full(false);
            }
            Fault::StoreSlow(longest, span) => {
                self.tell("store-slow", "store");
                server.slow(Some((longest / 8, longest)));
                sleep(span).await;
                server.slow(None);
            }
            Fault::Throttle(span) => {
                self.tell("throttle", "store");
                server.throttle(0.5);
                sleep(span).await;
                server.throttle(0.0);
            }
            Fault::LateWrites(span) => {
                self.tell("late-writes", "store");
                server.late(0.2);
                sleep(span).await;
                server.late(0.0);
            }
            Fault::LostReplies { many, span } => {
                self.tell("lost-replies", "store");
                server.lose(if many { 0.3 } else { 0.02 });
                sleep(span).await;
                server.lose(0.0);
            }
            Fault::StepDown => {
                self.tell("step-down", "store");
                server.step_down();
            }
            Fault::FailedSync(down) => {
                self.tell("failed-sync", "store");
                server.fail_sync();
                sleep(down).await;
                self.hosts[0].crash();
                self.hosts[0].start();
            }
            Fault::Regress { copied, raised } => self.regress(copied, raised).await,
            Fault::Gap { node } => {
                self.tell("feed-gap", &format!("n{node}"));
                server.gap(node);
            }
            _ => {}
        }
    }
}

/// Between a node and all others, both ways.
fn alone(net: &Net, node: usize, nodes: usize, act: impl Fn(&Net, Place, Place)) {
    for other in (0..nodes).filter(|other| *other != node) {
        act(net, Place::Node(node), Place::Node(other));
        act(net, Place::Node(other), Place::Node(node));
    }
}
