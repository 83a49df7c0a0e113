//! The chain over files, crashes and losses.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    AuditEntry, AuditEvent, AuditFiles, AuditLog, ChainFault, Checks, Head, Verified,
    chain::{self, Chain, Said},
    log::file_of,
    trail::{AuditError, Found, Trail, older},
    verify,
};
use crate::clock::ManualClock;

fn entry(key: &str) -> AuditEntry {
    AuditEntry {
        event: AuditEvent::Change,
        principal: None,
        peer: Some("127.0.0.1:9".to_owned()),
        method: "POST".to_owned(),
        path: "/v1/admin/pin".to_owned(),
        verb: "pin",
        key: Some(key.to_owned()),
        prefix: None,
        owner: None,
        pool: None,
        action: None,
        reason: None,
        code: None,
        status: Some(200),
        forwarded_by: None,
    }
}

fn write(trail: &mut Trail, from: u64, to: u64) {
    for n in from..=to {
        trail.append(n, &Said::Call(&entry(&format!("k/{n}")))).expect("written");
    }
}

struct Place {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Self { path: dir.path().join("audit.log"), _dir: dir }
    }

    fn open(&self) -> Trail {
        self.open_after(None)
    }

    /// Opens it where this line was the last that was written.
    fn open_after(&self, written: Option<Head>) -> Trail {
        Trail::open(Chain::Calls, &self.path, (1 << 20, 3), written).expect("opened")
    }

    /// The whole log, whose last lines are remembered beside it.
    fn log(&self, required: bool) -> AuditLog {
        let heads = self.path.parent().map(Path::to_owned);
        let files =
            AuditFiles { path: self.path.clone(), max_size: 1 << 20, keep: 3, required, heads };
        AuditLog::open(&files, Arc::new(ManualClock::new())).expect("opened")
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.path).expect("UTF-8")
    }

    fn put(&self, text: &[u8]) {
        fs::write(&self.path, text).expect("written");
    }

    fn verify(&self) -> Result<Verified, ChainFault> {
        verify(std::slice::from_ref(&self.path), &Checks::default())
    }

    /// The number of the line that a check finds at fault.
    fn fault(&self) -> u64 {
        match self.verify() {
            Err(ChainFault::Line { line, .. }) => line,
            other => panic!("{other:?}"),
        }
    }
}

fn knows(head: Head) -> Checks {
    Checks { known: vec![head], from: None }
}

/// The text of both files of a log.
fn both(path: &Path) -> String {
    let read = |chain| fs::read_to_string(file_of(path, chain)).expect("UTF-8");
    read(Chain::Calls) + &read(Chain::Changes)
}

#[test]
fn neither_strangers_nor_principals_push_the_lines_of_others_out() {
    let (place, clock) = (Place::new(), Arc::new(ManualClock::new()));
    let (path, heads) = (place.path.clone(), None);
    let files = AuditFiles { path, max_size: 1 << 20, keep: 3, required: false, heads };
    let log = AuditLog::open(&files, clock.clone()).expect("opened");
    let refused = |by: &str| {
        let principal = (!by.is_empty()).then(|| by.into());
        AuditEntry { event: AuditEvent::Refused, principal, ..entry("refused") }
    };
    let read = || AuditEntry { event: AuditEvent::Read, ..refused("low") };
    for _ in 0..1200 {
        log.record(refused(""));
        log.record(refused("low"));
        log.record(read());
    }
    log.record(refused("known"));
    log.record(entry("order"));
    let in_vain =
        || AuditEntry { status: Some(409), principal: Some("low".into()), ..entry("free") };
    for _ in 0..2500 {
        log.record(in_vain());
    }
    clock.advance(std::time::Duration::from_secs(1));
    for _ in 0..30 {
        log.record(refused("low"));
    }
    log.close();
    let text = both(&place.path);
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let single = |event: &str, by: Option<&str>| {
        let is = |line: &&serde_json::Value| {
            line["event"] == event && line["principal"].as_str() == by && line["count"].is_null()
        };
        lines.iter().filter(is).count()
    };
    let more = |event: &str, by: Option<&str>| {
        let is =
            |line: &&serde_json::Value| line["event"] == event && line["principal"].as_str() == by;
        lines.iter().filter(is).filter_map(|line| line["count"].as_u64()).sum::<u64>()
    };
    assert_eq!((single("refused", None), more("refused", None)), (1000, 200));
    assert_eq!((single("refused", Some("low")), more("refused", Some("low"))), (220, 1010));
    assert_eq!((single("read", Some("low")), more("read", Some("low"))), (200, 1000));
    assert_eq!((single("refused", Some("known")), single("change", None)), (1, 1));
    assert_eq!((single("change", Some("low")), more("change", Some("low"))), (2000, 500));
    assert_eq!(log.lost(), None);
    let all = [Chain::Calls, Chain::Changes].map(|chain| file_of(&place.path, chain));
    let found = verify(&all, &Checks::default()).expect("sound");
    assert_eq!((found.lines, found.chains.len()), (lines.len() as u64, 2));
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).expect("a file").len()
}

#[test]
fn a_chain_goes_on_over_restarts_and_is_whole() {
    let place = Place::new();
    for from in [1, 4, 7] {
        let mut trail = place.open();
        write(&mut trail, from, from + 2);
    }
    let found = place.verify().expect("sound");
    assert_eq!((found.lines, found.first, found.lost, found.torn), (9, 1, 0, 0));
    assert!(found.head.starts_with("9:"), "{found:?}");
    let lines: Vec<serde_json::Value> =
        place.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines[0]["prev"], "0".repeat(64));
    assert_eq!(lines[4]["time"], "1970-01-01T00:00:00.005Z");
    assert_eq!((&lines[4]["event"], &lines[4]["key"]), (&"change".into(), &"k/5".into()));
    let mode = fs::metadata(&place.path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn whatever_is_changed_is_found_at_its_line() {
    let place = Place::new();
    write(&mut place.open(), 1, 6);
    let text = place.text();
    let lines: Vec<&str> = text.lines().collect();
    let put = |lines: &[&str]| place.put(format!("{}\n", lines.join("\n")).as_bytes());
    // An edited line shows at the one after it.
    let edited = lines[2].replace("127.0.0.1:9", "127.0.0.1:8");
    put(&[lines[0], lines[1], &edited, lines[3], lines[4], lines[5]]);
    assert_eq!(place.fault(), 4);
    put(&[lines[0], lines[1], lines[3], lines[4], lines[5]]);
    assert_eq!(place.fault(), 3, "removed");
    put(&[lines[0], lines[2], lines[1], lines[3], lines[4], lines[5]]);
    assert_eq!(place.fault(), 2, "swapped");
    put(&[lines[0], lines[1], lines[1], lines[2], lines[3], lines[4], lines[5]]);
    assert_eq!(place.fault(), 3, "inserted");
    put(&[lines[0], "garbage", lines[1], lines[2]]);
    assert_eq!(place.fault(), 2);
    place.put(&text.as_bytes()[..text.len() - 9]);
    assert_eq!(place.fault(), 6, "cut within the last line");
    // An end that was cut off at a line shows only beside a digest from before.
    put(&lines);
    let head: Head = place.verify().expect("sound").head.parse().expect("a head");
    put(&lines[..4]);
    place.verify().expect("sound in itself");
    let cut =
        verify(std::slice::from_ref(&place.path), &knows(head)).expect_err("line 6 was there");
    assert!(cut.to_string().contains("the end was cut off"), "{cut}");
    put(&lines);
    verify(std::slice::from_ref(&place.path), &knows(head)).expect("it is there");
    let other = Head { seq: 3, ..head };
    assert!(matches!(
        verify(std::slice::from_ref(&place.path), &knows(other)),
        Err(ChainFault::Line { line: 3, .. })
    ));
    // Whoever computes the whole chain anew is found by the digest too.
    let again = Place::new();
    write(&mut again.open(), 2, 7);
    again.verify().expect("sound in itself");
    assert!(verify(std::slice::from_ref(&again.path), &knows(head)).is_err());
}

#[test]
fn what_a_crash_tore_stays_and_is_explained() {
    let place = Place::new();
    write(&mut place.open(), 1, 3);
    let whole = place.text();
    let third = whole.lines().nth(2).expect("a line").len() + 1;
    for cut in 1..=third {
        place.put(&whole.as_bytes()[..whole.len() - cut]);
        write(&mut place.open(), 4, 5);
        assert!(place.text().starts_with(&whole[..whole.len() - cut]), "nothing is cut");
        let found = place.verify().unwrap_or_else(|why| panic!("{cut}: {why}"));
        // Without its newline alone, the line is whole.
        let lines = if cut == 1 {
            (5, 0)
        } else if cut == third {
            (4, 0)
        } else {
            (5, 1)
        };
        assert_eq!((found.lines, found.torn), lines, "{cut}");
    }
    // The explanation itself is torn, several times.
    place.put(&whole.as_bytes()[..whole.len() - 20]);
    for cut in [10, 300, 30] {
        write(&mut place.open(), 4, 4);
        let text = place.text();
        place.put(&text.as_bytes()[..text.len() - cut]);
    }
    write(&mut place.open(), 4, 5);
    let found = place.verify().expect("explained");
    assert!(found.torn >= 1, "{found:?}");
    // What a line explains is what was there.
    let edited = place.text().replacen("k/3", "k/9", 1);
    place.put(edited.as_bytes());
    assert_eq!(place.fault(), 3);
}

#[test]
fn full_files_are_kept_with_one_chain_over_all() {
    let place = Place::new();
    let open = || Trail::open(Chain::Calls, &place.path, (2048, 3), None).expect("opened");
    for from in [1, 11, 21] {
        write(&mut open(), from, from + 9);
    }
    let files: Vec<PathBuf> =
        std::iter::once(place.path.clone()).chain((1..=3).map(|n| older(&place.path, n))).collect();
    assert!(files.iter().all(|file| size(file) <= 2048), "{files:?}");
    assert!(!older(&place.path, 4).exists());
    let found = verify(&files, &Checks::default()).expect("sound");
    assert!(found.first > 1 && found.head.starts_with("30:"), "{found:?}");
    let reversed: Vec<PathBuf> = files.iter().rev().cloned().collect();
    assert_eq!(verify(&reversed, &Checks::default()).expect("in any order"), found);
    let known = Head { seq: 1, ..Head::START };
    let gone = verify(&files, &knows(known)).expect_err("it was removed by rotation");
    assert!(gone.to_string().contains("older file"), "{gone}");
    let without = [files[0].clone(), files[1].clone(), files[3].clone()];
    assert!(
        matches!(verify(&without, &Checks::default()), Err(ChainFault::Line { line: 1, .. })),
        "a file is missing"
    );
    // A crash right after the rename.
    fs::rename(&place.path, older(&place.path, 1)).expect("renamed");
    write(&mut open(), 31, 31);
    let found = verify(&[files[0].clone(), files[1].clone()], &Checks::default()).expect("sound");
    assert!(found.head.starts_with("31:"), "{found:?}");
}

#[test]
fn a_file_of_somebody_else_is_refused_and_one_that_is_in_use() {
    let place = Place::new();
    place.put(b"root:x:0:0:root:/root:/bin/sh\n");
    let refused = Trail::open(Chain::Calls, &place.path, (1 << 20, 3), None).err();
    assert!(matches!(refused, Some(AuditError::Foreign { .. })), "{refused:?}");
    assert_eq!(place.text(), "root:x:0:0:root:/root:/bin/sh\n");
    let place = Place::new();
    let first = place.open();
    let second = Trail::open(Chain::Calls, &place.path, (1 << 20, 3), None).err();
    assert!(matches!(second, Some(AuditError::Locked { .. })), "{second:?}");
    drop(first);
    place.open();
}

#[test]
fn lines_that_do_not_fit_into_the_queue_are_counted_in_a_later_line() {
    let place = Place::new();
    let log = place.log(false);
    // More than the writer can take before the queue is full.
    let one = entry("k");
    for _ in 0..100_000 {
        log.record(one.clone());
    }
    log.close();
    let files: Vec<PathBuf> = (0..=3)
        .map(|n| {
            let newest = file_of(&place.path, Chain::Changes);
            if n == 0 { newest } else { older(&newest, n) }
        })
        .filter(|file| file.exists())
        .collect();
    let found = verify(&files, &Checks::default()).expect("sound");
    let head: Head = found.head.parse().expect("a head");
    let lost = log.lost().expect("some were lost").count;
    assert!(found.lost > 0, "{found:?}");
    let of_lost = head.seq().saturating_sub(100_000 - lost);
    assert!(of_lost >= 1, "each line is there or counted: {found:?}");
}

#[test]
fn an_end_that_was_cut_off_shows_at_the_next_start_and_no_number_is_used_twice() {
    let place = Place::new();
    let mut trail = place.open();
    write(&mut trail, 1, 6);
    let written = trail.head();
    drop(trail);
    let whole = place.text();
    let lines: Vec<&str> = whole.lines().collect();
    assert_eq!(*place.open_after(Some(written)).news(), Found::Same);
    let cut = |count: usize| place.put(format!("{}\n", lines[..count].join("\n")).as_bytes());
    // Three lines are gone, or all of them.
    for left in [3, 0] {
        if left > 0 {
            cut(left);
        } else {
            fs::remove_file(&place.path).expect("removed");
        }
        let mut trail = place.open_after(Some(written));
        assert!(matches!(trail.news(), Found::Gap(gap) if gap.found.seq == left as u64));
        write(&mut trail, 7, 8);
        assert!(place.text().contains(r#"{"seq":7,"#) && place.text().contains(r#""event":"gap""#));
        assert_eq!(place.text().matches(r#"{"seq":4,"#).count(), 0, "{}", place.text());
        let said = place.verify().expect_err("lines are gone").to_string();
        assert!(said.contains("--from 7"), "{said}");
        let from = Checks { known: vec![], from: Some(7) };
        let after = verify(std::slice::from_ref(&place.path), &from);
        assert_eq!(after.is_ok(), left == 0, "the lines before a jump are no chain: {after:?}");
        let last = trail.head();
        drop(trail);
        assert_eq!(*place.open_after(Some(last)).news(), Found::Same);
    }
    // Lines that a crash took before they were known to be durable are no gap, and neither are lines that came after.
    place.put(whole.as_bytes());
    let third: Head = verify(std::slice::from_ref(&place.path), &Checks::default())
        .map(|_| Head::START.then(lines[0].as_bytes()).then(lines[1].as_bytes()))
        .expect("sound")
        .then(lines[2].as_bytes());
    assert_eq!(*place.open_after(Some(third)).news(), Found::Same);
    // A chain that was computed anew from some line on, and is longer.
    let other = Place::new();
    write(&mut other.open(), 11, 19);
    let trail = other.open_after(Some(written));
    assert!(matches!(trail.news(), Found::Gap(gap) if gap.found.seq == 9), "{:?}", trail.news());
    assert_eq!(trail.head().seq(), 9);
}

#[test]
fn a_beginning_that_was_removed_is_refused_where_it_is_asked_for() {
    let place = Place::new();
    let open = || Trail::open(Chain::Calls, &place.path, (2048, 3), None).expect("opened");
    write(&mut open(), 1, 10);
    let newest = [place.path.clone()];
    let from = |seq| Checks { known: vec![], from: Some(seq) };
    let found = verify(&newest, &Checks::default()).expect("sound in itself");
    assert!(found.first > 1);
    let said = verify(&newest, &from(1)).expect_err("older files are missing").to_string();
    assert!(said.contains("line 1 was asked for"), "{said}");
    verify(&newest, &from(found.first)).expect("it begins there");
    let files: Vec<PathBuf> = std::iter::once(place.path.clone())
        .chain((1..=3).map(|n| older(&place.path, n)).filter(|file| file.exists()))
        .collect();
    verify(&files, &from(1)).expect("all are there");
}

#[test]
fn a_file_that_is_moved_removed_or_cut_while_it_is_written_is_noticed() {
    let place = Place::new();
    let mut trail = place.open();
    write(&mut trail, 1, 2);
    assert_eq!(trail.look().expect("there"), Found::Same);
    let aside = place.path.with_extension("aside");
    fs::rename(&place.path, &aside).expect("renamed");
    assert_eq!(trail.look().expect("made"), Found::Moved);
    write(&mut trail, 3, 3);
    let both = [aside.clone(), place.path.clone()];
    let found = verify(&both, &Checks { known: vec![], from: Some(1) }).expect("one chain");
    assert_eq!((found.files, found.lines), (2, 4));
    // Something else is in its place: nothing is written into it.
    fs::rename(&place.path, &aside).expect("renamed");
    place.put(b"something else\n");
    assert!(trail.look().is_err());
    assert_eq!(place.text(), "something else\n");
    fs::remove_file(&place.path).expect("removed");
    assert_eq!(trail.look().expect("made"), Found::Moved);
    write(&mut trail, 4, 4);
    fs::remove_file(&place.path).expect("removed");
    assert!(matches!(trail.look().expect("made"), Found::Gap(_)));
    write(&mut trail, 5, 5);
    assert!(place.text().contains(r#""event":"gap""#) && !place.text().contains(r#"{"seq":1,"#));
    // Its end is cut off in place.
    write(&mut trail, 6, 8);
    let text = place.text();
    let first = text.lines().next().expect("a line").len() + 1;
    fs::OpenOptions::new()
        .write(true)
        .open(&place.path)
        .and_then(|file| file.set_len(first as u64))
        .expect("cut");
    assert!(matches!(trail.look().expect("there"), Found::Gap(_)));
}

#[tokio::test]
async fn an_order_may_be_carried_out_once_its_line_is_durable_and_not_where_it_cannot_be() {
    let place = Place::new();
    let log = place.log(true);
    let intent = || AuditEntry { event: AuditEvent::Intent, status: None, ..entry("k") };
    log.intend(intent()).await.expect("it is kept");
    let changes = file_of(&place.path, Chain::Changes);
    assert!(fs::read_to_string(&changes).expect("UTF-8").contains(r#""event":"intent""#));
    // Another file is in its place.
    fs::rename(&changes, changes.with_extension("aside")).expect("renamed");
    fs::write(&changes, "something else\n").expect("written");
    log.intend(intent()).await.expect_err("there is no place for it");
    fs::remove_file(&changes).expect("removed");
    log.intend(intent()).await.expect("there is one again");
    log.close();
    log.intend(intent()).await.expect_err("it is closed");
}

#[test]
fn a_head_is_read_as_it_is_written() {
    let head = Head::START.then(&chain::write(Chain::Calls, Head::START, 0, &Said::Lost(1)));
    assert_eq!(head.to_string().parse(), Ok(head));
    for odd in ["", "1", "1:", "1:00", "x:00", &format!("1:{}", "g".repeat(64))] {
        assert!(odd.parse::<Head>().is_err(), "{odd}");
    }
}
