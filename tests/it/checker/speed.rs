//! What a check costs: a million lines within seconds, and n log n of them.

use std::time::Duration;

use tenure::clock::Chance;

use crate::{
    history::{Event, Limits, Line, Op, check_within},
    support::dice::Dice as _,
};

/// A tenure: granted, kept by heartbeats, run out; a subscriber hears of it.
struct Tenure {
    worker: String,
    key: String,
    token: u64,
    seq: u64,
    call: u64,
}

impl Tenure {
    fn asked(&self, call: u64, op: Op, due: u64) -> Event {
        let (worker, key) = (self.worker.clone(), self.key.clone());
        Event::Asked { call, worker, op, key, answer_by: Some(due) }
    }

    fn told(&self, call: u64, until: u64, grant: bool) -> Event {
        let (worker, key, token) = (self.worker.clone(), self.key.clone(), self.token);
        Event::Told { call: Some(call), worker, key, token, until, grant, session: None }
    }

    fn changed(&self, seq: u64, kind: &str) -> [Event; 2] {
        let (key, kind, token) = (self.key.clone(), kind.to_owned(), self.token);
        let heard = Event::Heard {
            subscriber: "s".into(),
            key: key.clone(),
            seq,
            kind: kind.clone(),
            token,
        };
        let owner = self.worker.clone();
        let fences = Vec::new();
        [
            Event::Committed { key, seq, kind, token, owner, session: None, fences, sent: None },
            heard,
        ]
    }

    fn write(self, t: u64, lines: &mut Vec<Line>) {
        let [granted, heard] = self.changed(self.seq, "granted");
        let [expired, heard_last] = self.changed(self.seq + 1, "expired");
        let beat = |t: u64, call: u64| {
            [(t, self.asked(call, Op::Heartbeat, t + 50)), (t + 3, self.told(call, t + 100, false))]
        };
        let first = [
            (t, self.asked(self.call, Op::Acquire, t + 50)),
            (t + 1, granted),
            (t + 2, heard),
            (t + 3, self.told(self.call, t + 100, true)),
        ];
        let last = [(t + 200, expired), (t + 201, heard_last)];
        let beats = beat(t + 10, self.call + 1).into_iter().chain(beat(t + 20, self.call + 2));
        let all = first.into_iter().chain(beats).chain(last);
        lines.extend(all.map(|(t, event)| Line { t, event }));
    }
}

/// A history without a violation. Few keys are long stories, which a careless check takes the square of.
fn history(lines: usize, keys: u64) -> Vec<Line> {
    let mut chance = Chance::new(lines as u64);
    let mut all = Vec::with_capacity(lines + 16);
    let mut tokens = vec![0; usize::try_from(keys).expect("few")];
    let mut seqs = tokens.clone();
    let mut step = 0;
    while all.len() < lines {
        let number = chance.below(keys);
        let place = usize::try_from(number).expect("few");
        tokens[place] += 1 + chance.below(9);
        let tenure = Tenure {
            worker: format!("worker-{}", chance.below(50)),
            key: format!("key-{number}"),
            token: tokens[place],
            seq: seqs[place] + 1,
            call: 3 * step,
        };
        seqs[place] += 2;
        tenure.write(step * 1_000, &mut all);
        step += 1;
    }
    all.push(Line { t: step * 500, event: Event::Calm });
    all.push(Line { t: step * 1_000, event: Event::Over });
    all
}

/// The CPU time of this thread. It does not count the time in which other tests had the core.
fn cpu_time() -> Duration {
    let shown = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanos = shown.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.expect("nanoseconds"))
}

/// The fastest of some checks, all of which find nothing.
fn time(lines: &[Line], times: usize) -> Duration {
    let limits = Limits::of(100);
    let one = |_| {
        let began = cpu_time();
        let report = check_within(lines, &limits);
        assert!(report.violations.is_empty(), "{report}");
        assert!(report.counts.judged > 0 && report.counts.take_overs > 0);
        cpu_time() - began
    };
    (0..times).map(one).min().expect("one")
}

#[test]
fn a_million_lines() {
    for keys in [1, 200] {
        let lines = history(1_000_000, keys);
        let took = time(&lines, 1);
        println!("{} lines of {keys} keys: {took:?}", lines.len());
        assert!(took < Duration::from_secs(30), "{took:?}");
    }
}

/// Sixteen times as many lines cost little more than sixteen times as much: their square would be 256 times.
#[test]
fn the_cost_grows_as_n_log_n() {
    for keys in [1, 200] {
        let (few, many) = (time(&history(20_000, keys), 3), time(&history(320_000, keys), 2));
        let times = many.as_secs_f64() / few.as_secs_f64();
        println!("{keys} keys: {few:?} for 20 000 lines, {many:?} for 320 000: {times:.1} times");
        assert!(times < 100.0, "{times} times as long");
    }
}
