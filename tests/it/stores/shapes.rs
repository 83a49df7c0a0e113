//! Records of every shape: each optional part there or not, numbers small, middling and extreme,
//! text of any length and script.

use std::sync::Arc;

use tenure::{
    clock::Chance,
    lease::{
        Behavior, ChangeKind, Check, CheckKind, Ended, Epoch, Fence, FenceWhen, FencesAndDelay,
        Handover, KeyState, MAX_OWNER_BYTES, MAX_PIN_BYTES, MAX_PINS, MAX_REQUEST_MARKS, Moment,
        Nonce, Offer, OnFenceFailure, Owner, Record, RequestMark, Revocation, SessionSpec, Tenure,
        Token,
    },
    manager::MAX_VALUE_BYTES,
};

const ALPHABET: [&str; 16] = [
    "a",
    "Z",
    "0",
    "/",
    ".",
    "*",
    ">",
    "#",
    " ",
    "%",
    "=",
    "é",
    "e\u{301}",
    "🦀",
    "漢",
    "\u{10ffff}",
];

const STATES: [KeyState; 5] =
    [KeyState::Free, KeyState::Held, KeyState::Offered, KeyState::Fencing, KeyState::Cooling];

/// Makes shapes.
#[derive(Debug)]
pub struct Shapes(pub Chance);

impl Shapes {
    pub fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound as u64) as usize
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    fn number(&mut self) -> u64 {
        match self.below(5) {
            0 => 0,
            1 => u64::MAX,
            2 => self.0.next_u64(),
            3 => u64::from(u32::MAX) + self.below(3) as u64,
            _ => self.below(100_000) as u64,
        }
    }

    pub fn nonce(&mut self) -> Nonce {
        Nonce(u128::from(self.0.next_u64()) << 64 | u128::from(self.0.next_u64()))
    }

    /// Text of at most so many bytes, often just as many.
    pub fn text(&mut self, bytes: usize) -> String {
        let wanted = if self.below(4) == 0 { bytes } else { self.below(bytes.min(40) + 1) };
        let mut text = String::new();
        while text.len() < wanted {
            let next = ALPHABET[self.below(ALPHABET.len())];
            text.push_str(if text.len() + next.len() <= wanted { next } else { "x" });
        }
        text
    }

    pub fn owner(&mut self) -> Owner {
        let name = self.text(MAX_OWNER_BYTES);
        Owner::new(if name.is_empty() { "w" } else { &name }).expect("a name")
    }

    fn tenure(&mut self) -> Tenure {
        Tenure {
            grant_nonce: self.nonce(),
            owner: self.owner(),
            // What a token may be: below 2^53.
            token: Token(self.number() >> 11),
            ttl_ms: self.number(),
            acquired_at_ms: self.number(),
            session_ref: None,
        }
    }

    fn some<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.coin() { Some(make(self)) } else { None }
    }

    pub fn record(&mut self) -> Record {
        let reason = ChangeKind::ALL[self.below(ChangeKind::ALL.len())];
        Record {
            nonce: self.nonce(),
            node: self.nonce(),
            epoch: Epoch((self.number() % 1024) as u16),
            written: Moment(self.number()),
            state: STATES[self.below(STATES.len())],
            seq: self.number(),
            tenure: self.some(Self::tenure),
            previous: self.some(|s| {
                Box::new(Ended {
                    tenure: s.tenure(),
                    reason,
                    ended_at_ms: s.number(),
                    fenced: false,
                })
            }),
            value: self.some(|s| s.text(MAX_VALUE_BYTES).into()),
            floor_ms: self.number(),
            pins: (0..self.below(4)).map(|_| self.text(MAX_PIN_BYTES).into()).collect(),
            offer: self.some(|s| Box::new(Offer { to: s.owner(), span_ms: s.number() })),
            fences_and_delay: self.some(|s| {
                let fences = (0..s.below(3)).map(|_| s.fence()).collect();
                Box::new(FencesAndDelay { cooling_ms: s.number(), fences })
            }),
            revocation: self.some(|s| {
                Box::new(Revocation { reason: s.text(1024).into(), actor: s.text(256).into() })
            }),
            request_marks: (0..self.below(MAX_REQUEST_MARKS + 1)).map(|_| self.mark()).collect(),
            handover: self.some(|s| {
                let (reason, actor) = (s.text(256).into(), s.text(256).into());
                Box::new(Handover { reason, actor, span_ms: s.number() })
            }),
            spec: self.some(|s| Box::new(s.spec())),
            ..Record::absent()
        }
    }

    fn fence(&mut self) -> Fence {
        let names = |s: &mut Self| (0..s.below(3)).map(|_| s.text(40).into()).collect();
        Fence {
            token: Token(self.number() >> 11),
            owner: self.owner(),
            reason: ChangeKind::ALL[self.below(ChangeKind::ALL.len())],
            session: self.some(Self::nonce),
            when: if self.coin() { FenceWhen::BeforeGrant } else { FenceWhen::AfterGrant },
            on_failure: if self.coin() {
                OnFenceFailure::Block
            } else {
                OnFenceFailure::GrantWithAlarm
            },
            timeout_ms: self.number(),
            pending: names(self),
            failed: names(self),
        }
    }

    fn spec(&mut self) -> SessionSpec {
        let kind = match self.below(4) {
            0 => CheckKind::Http(self.text(100).into()),
            1 => CheckKind::Tcp(self.text(100).into()),
            2 => CheckKind::Exec(vec![self.text(100).into(), self.text(100).into()]),
            _ => CheckKind::Progress,
        };
        let (interval_ms, timeout_ms) = (self.number(), self.number());
        SessionSpec {
            behavior: if self.coin() { Behavior::Release } else { Behavior::Delete },
            lock_delay_ms: self.some(|s| s.number() as u32),
            pool: self.some(|s| s.text(100).into()),
            weight: self.number() as u32,
            capacity: self.some(|s| s.number() as u32),
            checks: vec![Check { kind, interval_ms, timeout_ms, fail_after: 3 }],
        }
    }

    fn mark(&mut self) -> RequestMark {
        RequestMark { id: self.nonce().0, body: self.0.next_u64(), grant_nonce: self.nonce() }
    }

    /// Every part there, each as long as it may be.
    pub fn longest(&mut self) -> Arc<Record> {
        let owner = || Owner::new(&"é".repeat(MAX_OWNER_BYTES / 2)).expect("a name");
        let tenure = Tenure {
            grant_nonce: Nonce(u128::MAX),
            owner: owner(),
            token: Token((1 << 53) - 1),
            ttl_ms: u64::MAX,
            acquired_at_ms: u64::MAX,
            session_ref: None,
        };
        let previous = Ended {
            tenure: tenure.clone(),
            reason: ChangeKind::Unpinned,
            ended_at_ms: u64::MAX,
            fenced: true,
        };
        Arc::new(Record {
            nonce: self.nonce(),
            node: Nonce(u128::MAX),
            epoch: Epoch(1023),
            written: Moment::NEVER,
            state: KeyState::Offered,
            seq: u64::MAX,
            tenure: Some(tenure),
            previous: Some(Box::new(previous)),
            value: Some("\u{10ffff}".repeat(MAX_VALUE_BYTES / 4).into()),
            floor_ms: u64::MAX,
            pins: (0..MAX_PINS).map(|_| "p".repeat(MAX_PIN_BYTES).into()).collect(),
            offer: Some(Box::new(Offer { to: owner(), span_ms: u64::MAX })),
            fences_and_delay: None,
            revocation: Some(Box::new(Revocation {
                reason: "r".repeat(1024).into(),
                actor: "a".repeat(256).into(),
            })),
            request_marks: (0..MAX_REQUEST_MARKS).map(|_| self.mark()).collect(),
            handover: Some(Box::new(Handover {
                reason: "r".repeat(256).into(),
                actor: "a".repeat(256).into(),
                span_ms: u64::MAX,
            })),
            // A session's record has no value.
            ..Record::absent()
        })
    }
}
