//! Hand-made histories, as small files: what they are about, what is expected, and a line for each event with its
//! time in milliseconds. `>` marks the lines that the timeline must point at, and no other.

use std::{fs, path::Path};

use crate::history::{Event, Limits, Line, Op, Sight};

/// One of them.
pub struct Case {
    pub name: String,
    pub lines: Vec<Line>,
    pub limits: Limits,
    /// The invariants that do not hold, the case's own first, and what is said of it.
    pub expected: Option<(Vec<String>, String)>,
    /// The places of the lines that are marked, from 0 in the order of the file.
    pub marked: Vec<usize>,
}

/// The words of a line, taken from the left.
struct Words<'a>(std::iter::Peekable<std::str::SplitWhitespace<'a>>);

impl Words<'_> {
    fn text(&mut self) -> String {
        self.0.next().expect("one more word").to_owned()
    }

    fn number(&mut self) -> u64 {
        let word = self.text();
        word.parse().unwrap_or_else(|_| panic!("{word:?} is no number"))
    }

    /// Milliseconds, as nanoseconds.
    fn time(&mut self) -> u64 {
        match self.0.next_if_eq(&"never") {
            Some(_) => u64::MAX,
            None => self.number() * 1_000_000,
        }
    }

    /// Whether this word comes next.
    fn has(&mut self, word: &str) -> bool {
        self.0.next_if_eq(&word).is_some()
    }

    /// What follows this word, if that comes next.
    fn after<T>(&mut self, word: &str, take: impl Fn(&mut Self) -> T) -> Option<T> {
        self.has(word).then(|| take(self))
    }

    fn op(&mut self) -> Op {
        serde_json::from_value(self.text().into()).expect("an operation")
    }
}

fn event(words: &mut Words<'_>) -> Event {
    match words.text().as_str() {
        "fault" => Event::Fault { fault: words.text(), at: words.text() },
        "calm" => Event::Calm,
        "over" => Event::Over,
        "late-commits" => Event::LateCommits,
        "whole" => Event::Whole,
        "asked" => Event::Asked {
            call: words.number(),
            worker: words.text(),
            op: words.op(),
            key: words.text(),
            answer_by: words.after("by", Words::time),
        },
        "refused" => Event::Refused { call: words.number(), why: words.text() },
        "lost" => Event::Lost { call: words.number() },
        "acknowledged" => Event::Acknowledged {
            call: words.number(),
            op: words.op(),
            key: words.text(),
            token: words.number(),
        },
        "session-end-acknowledged" => {
            Event::SessionEndAcknowledged { call: words.number(), session: words.text() }
        }
        "told" => told(words),
        "shut" => Event::Shut {
            worker: words.text(),
            key: words.text(),
            token: words.number(),
            why: words.text(),
        },
        "cut" => Event::Cut { key: words.text(), token: words.number(), why: words.text() },
        "reset" => Event::Reset { subscriber: words.text() },
        "tombstone" => Event::Tombstone { session: words.text() },
        "seen" => Event::Seen { sight: sight(&words.text()) },
        verb => of_others(verb, words),
    }
}

fn sight(name: &str) -> Sight {
    serde_json::from_value(name.into()).expect("a sight")
}

fn told(words: &mut Words<'_>) -> Event {
    let (worker, key, token) = (words.text(), words.text(), words.number());
    let until = words.after("until", Words::time).expect("until");
    let grant = words.has("granted");
    let session = words.after("session", Words::text);
    let call = words.after("call", Words::number);
    Event::Told { call, worker, key, token, until, grant, session }
}

/// What stores, subscribers, plugins and nodes do.
fn of_others(verb: &str, words: &mut Words<'_>) -> Event {
    match verb {
        "committed" => Event::Committed {
            key: words.text(),
            seq: words.number(),
            kind: words.text(),
            token: words.number(),
            owner: Some(words.text()).filter(|owner| owner != "-").unwrap_or_default(),
            session: words.after("session", Words::text),
            fences: words
                .after("fences", |words| words.text().split(',').map(str::to_owned).collect())
                .unwrap_or_default(),
            sent: words.after("sent", Words::time),
        },
        "in-force" => Event::InForce {
            node: words.text(),
            prefix: words.text(),
            permits: words.number().try_into().expect("a number"),
        },
        "all" => Event::All {
            node: words.text(),
            key: words.text(),
            leases: words.number().try_into().expect("a number"),
        },
        "heard" => Event::Heard {
            subscriber: words.text(),
            key: words.text(),
            seq: words.number(),
            kind: words.text(),
            token: words.number(),
        },
        "fenced" => {
            Event::Fenced { plugin: words.text(), key: words.text(), token: words.number() }
        }
        "tried" => Event::Tried { plugin: words.text(), key: words.text(), token: words.number() },
        "blocks" => Event::Blocks { key: words.text() },
        "stood" => Event::Stood {
            key: words.text(),
            token: words.number(),
            until: words.after("until", Words::time),
        },
        "ran" => Event::Ran {
            program: words.text(),
            key: words.text(),
            token: words.number(),
            began: words.has("began"),
        },
        "wrote" => Event::Wrote {
            key: words.text(),
            token: words.number(),
            taken: match words.text().as_str() {
                "taken" => true,
                "refused" => false,
                other => panic!("a write is taken or refused, not {other}"),
            },
        },
        "promised" => Event::Promised {
            node: words.text(),
            key: words.text(),
            token: words.number(),
            decided: words.after("decided", Words::time).expect("decided"),
            until: words.after("until", Words::time).expect("until"),
            d: words.after("d", Words::time).expect("d"),
            ttl: words.after("ttl", Words::time).expect("ttl"),
        },
        other => panic!("nothing is called {other:?}"),
    }
}

impl Case {
    pub fn parse(name: &str, text: &str) -> Self {
        let mut case = Self {
            name: name.to_owned(),
            lines: Vec::new(),
            limits: Limits::default(),
            expected: None,
            marked: Vec::new(),
        };
        // The first line says what it is about.
        for line in text.lines().skip(1) {
            if let Some(said) = line.strip_prefix("expect ") {
                let named = said.split_once(": ");
                case.expected = named.map(|(invariants, said)| {
                    (invariants.split(' ').map(str::to_owned).collect(), said.to_owned())
                });
                assert!(case.expected.is_some() || said == "fine", "{name}: {line:?}");
                continue;
            }
            if let Some(bound) = line.strip_prefix("bound ") {
                case.limits = Limits::of(Words(bound.split_whitespace().peekable()).time());
                continue;
            }
            if line.starts_with('>') {
                case.marked.push(case.lines.len());
            }
            let mut words = Words(line.trim_start_matches('>').split_whitespace().peekable());
            let t = words.time();
            case.lines.push(Line { t, event: event(&mut words) });
            assert_eq!(words.0.next(), None, "{name}: too much in {line:?}");
        }
        case
    }

    /// The numbers that the timeline gives to the marked lines.
    pub fn numbers(&self) -> Vec<usize> {
        let mut by_time: Vec<usize> = (0..self.lines.len()).collect();
        by_time.sort_by_key(|place| self.lines[*place].t);
        let number = |place: &usize| by_time.iter().position(|at| at == place).expect("there") + 1;
        let mut numbers: Vec<usize> = self.marked.iter().map(number).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// All of them, by name.
pub fn all() -> Vec<Case> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/checker/cases");
    let files = fs::read_dir(dir).expect("the cases");
    let mut cases: Vec<Case> = files
        .map(|file| {
            let path = file.expect("a file").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            Case::parse(&name, &fs::read_to_string(&path).expect("text"))
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}
