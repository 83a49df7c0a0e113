//! Compare-and-set: of two writes on one revision one is committed, and numbers only rise.

use std::sync::Arc;

use tenure::{
    lease::{ChangeKind, Revision, Token},
    store::{LeaseStore, Write, WriteOutcome},
};

use crate::stores::{
    lab::{change, commit, committed, found, grant, held, key, nonce, released, soon, sound},
    subject::{Subject, two},
};

/// Writers at a time on one key.
const WRITERS: u64 = 32;

pub async fn one_of_many_writers_wins(subject: &impl Subject) {
    let stores = two(subject).await;
    let key = key("jobs/contended");
    let mut expected = Revision::ABSENT;
    for round in 0..8 {
        let writes: Vec<_> = (0..WRITERS).map(|_| grant(&key, expected, round + 1)).collect();
        let outcomes = writes
            .iter()
            .enumerate()
            .map(|(n, write)| tokio::spawn(stores[n % 2].compare_and_set(write.clone())));
        let outcomes: Vec<_> = outcomes.collect();
        let (mut winner, mut losers) = (None, Vec::new());
        for (write, outcome) in writes.iter().zip(outcomes) {
            match soon(outcome).await.expect("no panic") {
                WriteOutcome::Committed(revision) => {
                    assert!(winner.is_none(), "two won: {winner:?}, {revision:?}");
                    winner = Some((revision, write.record.clone()));
                }
                WriteOutcome::Conflict(Some(there)) => losers.push(there),
                other => panic!("{other:?}"),
            }
        }
        let (revision, record) = winner.expect("one wins");
        assert!(revision > expected);
        for there in losers {
            let why = "who lost is shown who won";
            assert_eq!((there.revision, there.record.as_ref()), (revision, Ok(&record)), "{why}");
        }
        for store in &stores {
            assert_eq!(sound(store, &key).await, (revision, record.clone()));
        }
        expected = revision;
    }
}

pub async fn a_conflict_tells_what_is_there(subject: &impl Subject) {
    let store = subject.open().await;
    let (known, unknown) = (key("known"), key("unknown"));
    assert!(found(&store, &unknown).await.is_none());
    let nothing = soon(store.compare_and_set(grant(&unknown, Revision(9), 1))).await;
    assert!(matches!(nothing, WriteOutcome::Conflict(None)), "{nothing:?}");
    assert!(found(&store, &unknown).await.is_none(), "it was not written");

    let first = commit(&store, grant(&known, Revision::ABSENT, 1)).await;
    let second = commit(&store, grant(&known, first, 2)).await;
    let there = sound(&store, &known).await;
    for expected in [Revision::ABSENT, first, Revision(second.0 + 1), Revision(u64::MAX >> 21)] {
        let outcome = soon(store.compare_and_set(grant(&known, expected, 3))).await;
        let WriteOutcome::Conflict(Some(shown)) = outcome else {
            panic!("{expected:?}: {outcome:?}")
        };
        assert_eq!((shown.revision, shown.record.expect("sound")), there, "{expected:?}");
        assert_eq!(sound(&store, &known).await, there, "{expected:?} wrote nothing");
    }
}

/// Two handles count one key up, each from what it reads: no step is lost, none is taken twice.
pub async fn nothing_is_lost_between_two_handles(subject: &impl Subject) {
    const STEPS: u64 = 10;
    const COUNTERS: u64 = 4;
    let stores = two(subject).await;
    let key = key("counter");
    let count = async |store: Arc<dyn LeaseStore>| {
        let mut counted = 0;
        while counted < STEPS {
            let there = found(&store, &key).await;
            let (revision, seq) =
                there.map_or((Revision::ABSENT, 0), |f| (f.revision, f.record.expect("sound").seq));
            match soon(store.compare_and_set(grant(&key, revision, seq + 1))).await {
                WriteOutcome::Committed(_) => counted += 1,
                WriteOutcome::Conflict(_) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    let counters = (0..COUNTERS as usize).map(|n| count(stores[n % 2].clone()));
    futures_util::future::join_all(counters).await;
    for store in &stores {
        assert_eq!(sound(store, &key).await.1.seq, STEPS * COUNTERS);
    }
}

pub async fn revisions_and_tokens_rise_through_release_and_regrant(subject: &impl Subject) {
    let stores = two(subject).await;
    let (key, other) = (key("rising"), key("other"));
    let (mut highest, mut tokens) = (Revision::ABSENT, vec![Token::default()]);
    for round in 0..10u64 {
        let store = &stores[round as usize % 2];
        let granted = commit(store, grant(&key, highest, 2 * round + 1)).await;
        assert!(granted > highest);
        let (revision, record) = sound(store, &key).await;
        let token = record.token(revision);
        assert_eq!(token, Token::of(record.epoch, granted), "resolved by the revision");
        assert!(token > *tokens.last().expect("one"));
        tokens.push(token);
        // What happens to other keys in between changes nothing.
        if round == 3 {
            commit(store, grant(&other, Revision::ABSENT, 1)).await;
        }
        let there = found(store, &key).await.expect("a record");
        let record = Arc::new(released(&there));
        let changes = vec![change(ChangeKind::Released, record.seq)];
        let write = Write { key: key.clone(), expected: granted, record, changes };
        let freed = commit(store, write).await;
        assert!(freed > granted);
        let (revision, record) = sound(store, &key).await;
        assert_eq!(record.token(revision), token, "a release keeps the token");
        highest = freed;
    }
    let store = subject.open().await;
    let granted = commit(&store, grant(&key, highest, 21)).await;
    assert!(granted > highest, "also when it was opened again");
    // A later write of the same tenure carries the token as a number.
    let (revision, record) = sound(&store, &key).await;
    let token = record.token(revision);
    let mut kept = held(21);
    kept.tenure.as_mut().expect("a tenure").token = token;
    kept.nonce = nonce();
    let write =
        Write { key: key.clone(), expected: revision, record: Arc::new(kept), changes: vec![] };
    let later = commit(&store, write).await;
    let (revision, record) = sound(&store, &key).await;
    assert_eq!((revision, record.token(revision)), (later, token));
}

pub async fn revisions_and_tokens_rise_through_a_deletion_by_hand(subject: &impl Subject) {
    let stores = two(subject).await;
    let key = key("deleted");
    let mut highest = Revision::ABSENT;
    for seq in 1..=5 {
        highest = commit(&stores[0], grant(&key, highest, seq)).await;
    }
    for _ in 0..3 {
        if !subject.delete_by_hand(&key).await {
            return;
        }
        for store in &stores {
            assert!(found(store, &key).await.is_none(), "every handle sees that it is gone");
        }
        let stale = soon(stores[1].compare_and_set(grant(&key, highest, 6))).await;
        assert!(
            matches!(stale, WriteOutcome::Conflict(_)),
            "what was deleted is not there: {stale:?}"
        );
        let write = grant(&key, Revision::ABSENT, 1);
        let again = committed(stores[1].compare_and_set(write)).await;
        assert!(again > highest, "{again:?} after {highest:?}");
        let (revision, record) = sound(&stores[0], &key).await;
        assert_eq!(record.token(revision), Token::of(record.epoch, again));
        highest = again;
    }
}
