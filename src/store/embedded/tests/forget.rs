//! Removed records do not come back, and leave nothing behind.

use super::*;

const SESSIONS: u64 = 3_000;
const LIVING: u64 = 10;

#[test]
fn forgotten_sessions_stay_away_through_compaction_and_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let mut store = open(dir.path(), &disk).unwrap();
    let session = |n: u64| Key::of_session(Nonce(u128::from(n)));
    for n in 0..SESSIONS {
        let first = put_ok(&store, &session(n), 1, u128::from(n));
        if n >= LIVING {
            let dead = session(n - LIVING);
            let there = revision_of(&store, &dead).unwrap();
            assert_eq!(wait(store.forget(&dead, first)), Ok(false), "not this revision");
            assert_eq!(wait(store.forget(&dead, there)), Ok(true));
            assert_eq!(wait(store.forget(&dead, there)), Ok(true), "twice");
        }
        put_ok(&store, &key(n % 7), n / 7 + 1, u128::from(n));
        if n % 500 == 499 {
            drop(store);
            store = open(dir.path(), &disk).unwrap();
            assert_eq!(store.stats().keys, LIVING + 7);
            let last = n;
            for n in last - 400..=last {
                let there = revision_of(&store, &session(n)).is_some();
                assert_eq!(there, n + LIVING > last, "session {n}");
            }
        }
    }
    let stats = store.stats();
    assert!(stats.log_bytes < 20 * SEGMENT, "{} bytes for {} keys", stats.log_bytes, stats.keys);
}
