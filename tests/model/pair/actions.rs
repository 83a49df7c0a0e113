//! What may happen next, in a world of two nodes.

use super::{
    Bounds, KEY, NOW, SESSION, TwoNodes,
    client::Kind,
    node::Node,
    world::{Action, Fate, World},
};

impl World {
    pub fn actions(&self, model: &TwoNodes, out: &mut Vec<Action>) {
        let bounds = &model.bounds;
        if bounds.session {
            self.actions_of_session(model, out);
        }
        self.actions_of_clients(bounds, out);
        for (at, node) in self.nodes.iter().enumerate() {
            if node.runs {
                self.actions_at(at, node, bounds, out);
            } else if self.incarnations < bounds.incarnations {
                out.push(Action::Start(at));
            }
        }
        if self.stray.is_some() {
            out.push(Action::LandStray);
        }
        if self.nodes.iter().all(|node| node.may_wait(bounds)) {
            out.push(Action::Pass);
        }
    }

    fn actions_of_clients(&self, bounds: &Bounds, out: &mut Vec<Action>) {
        for (me, client) in self.clients.iter().enumerate() {
            for at in 0..2 {
                let holds = client.proof.is_some() && !client.closed;
                if holds && client.call.is_none() {
                    if me == 0 || bounds.rival_calls {
                        let kinds = bounds.calls.iter();
                        out.extend(kinds.map(|kind| Action::Send(me, *kind, at)));
                    }
                } else if me == 1 && at == 0 && !bounds.rival_calls {
                    // The rival asks where the key is not at home at first.
                } else if me == 0 && bounds.session {
                    // It asks for it under its session.
                } else if client.proof.is_none() && client.attempts < bounds.attempts[me] {
                    out.push(Action::Send(me, Kind::Acquire, at));
                }
            }
        }
    }

    fn actions_at(&self, at: usize, node: &Node, bounds: &Bounds, out: &mut Vec<Action>) {
        out.push(Action::Keep(at));
        for which in [KEY, SESSION] {
            if node.flights[which].is_some() {
                out.push(Action::Commit(at, which));
                if self.unknowns < bounds.unknowns && self.stray.is_none() {
                    let fates = [Fate::Landed, Fate::LandsLate, Fate::Lost];
                    out.extend(fates.map(|fate| Action::LoseReply(at, which, fate)));
                }
            }
            if node.news[which] {
                out.push(Action::News(at, which));
            }
            if node.leases[which].next_wake() <= NOW {
                out.push(Action::Wake(at, which));
            }
        }
        self.actions_of_reads(at, node, bounds, out);
        if node.fencing.is_some() {
            out.push(Action::Confirm(at));
        }
        if self.drains < bounds.drains && !node.membership.is_leaving() {
            out.push(Action::Leave(at));
        }
        if self.crashes < bounds.crashes {
            self.actions_of_crash(at, node, out);
        }
    }

    fn actions_of_crash(&self, at: usize, node: &Node, out: &mut Vec<Action>) {
        let fates = |which: usize| match (&node.flights[which], &self.stray) {
            (None, _) => &[Fate::Lost][..],
            (_, Some(_)) => &[Fate::Lost, Fate::Landed],
            (_, None) => &[Fate::Lost, Fate::Landed, Fate::LandsLate],
        };
        for of_key in fates(KEY) {
            for of_session in fates(SESSION) {
                // One at a time may land late.
                if [of_key, of_session] != [&Fate::LandsLate; 2] {
                    out.push(Action::Crash(at, [*of_key, *of_session]));
                }
            }
        }
    }
}
