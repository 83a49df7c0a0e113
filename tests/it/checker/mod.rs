//! The history checker, put to the question: hand-made histories, good and bad, each bad one refused for its own
//! reason with a timeline that points at the right lines; that it counts; and what it costs.

mod case;
mod speed;

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{
    Event, INVARIANTS, Line, Log, Needs, Op, Report, Sight, carry, check, check_within, fortunes,
    read,
};

/// What is wrong with the verdict on a case.
fn objection(case: &case::Case) -> Option<String> {
    let report = check_within(&case.lines, &case.limits);
    let Some((invariants, said)) = &case.expected else {
        return (!report.violations.is_empty()).then(|| format!("is refused: {report}"));
    };
    let broken: BTreeSet<String> = report.broken().into_iter().map(str::to_owned).collect();
    if broken != invariants.iter().cloned().collect() {
        return Some(format!("breaks {broken:?} and not {invariants:?}: {report}"));
    }
    let own = |v: &&crate::history::Violation| {
        v.invariant == invariants[0] && v.text.contains(said.as_str())
    };
    let Some(violation) = report.violations.iter().find(own) else {
        return Some(format!("is refused, but {said:?} is not said: {report}"));
    };
    let numbers = case.numbers();
    if violation.lines != numbers {
        return Some(format!("points at {:?} and not at {numbers:?}: {report}", violation.lines));
    }
    // Those and no others are marked in the text.
    let marked = violation.text.lines().filter(|line| line.starts_with('>'));
    let named = |(line, number): (&str, usize)| line.contains(&format!("#{number} "));
    let shown: Vec<&str> = marked.collect();
    let right = shown.len() == numbers.len() && shown.iter().copied().zip(numbers).all(named);
    (!right).then(|| format!("the timeline does not show it: {}", violation.text))
}

#[test]
fn hand_made_histories() {
    let mut objections = Vec::new();
    let mut per_invariant: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let cases = case::all();
    for case in &cases {
        let (of, rest) = case.name.split_once('-').expect("a name that begins with the invariant");
        let bad = rest.starts_with("bad-");
        assert_eq!(bad, case.expected.is_some(), "{}: its name says something else", case.name);
        let (good_ones, bad_ones) = per_invariant.entry(of.to_uppercase()).or_default();
        *(if bad { bad_ones } else { good_ones }) += 1;
        if let Some(objection) = objection(case) {
            objections.push(format!("{} {objection}", case.name));
        }
    }
    println!("{} histories, per invariant (good, bad): {per_invariant:?}", cases.len());
    assert!(objections.is_empty(), "{}", objections.join("\n\n"));
    for invariant in &INVARIANTS[..9] {
        let (good, bad) = per_invariant[*invariant];
        assert!(good >= 2 && bad >= 3 && good + bad >= 5, "{invariant}: {good} good, {bad} bad");
    }
}

/// A history that is judged in parts is judged as in one.
#[test]
fn parts_are_judged_as_the_whole() {
    let is_whole = |line: &Line| line.event == Event::Whole;
    let mut bad = 0;
    for case in case::all().iter().filter(|case| case.lines.iter().any(is_whole)) {
        let (mut broken, mut judged, mut part) = (BTreeSet::new(), 0, Vec::new());
        let mut judge = |part: &[Line]| -> Report {
            let report = check(part);
            broken.extend(report.broken());
            judged += report.counts.lines;
            report
        };
        for line in &case.lines {
            part.push(line.clone());
            if is_whole(line) {
                judge(&part);
                part = carry(&part);
            }
        }
        let last = judge(&part);
        let whole = check(&case.lines);
        assert_eq!(broken, whole.broken(), "{}: {last} and {whole}", case.name);
        bad += usize::from(!broken.is_empty());
    }
    assert!(bad >= 8, "{bad} bad histories have parts");
}

fn told(t: u64, worker: &str, token: u64, until: u64) -> (u64, Event) {
    let (worker, key) = (worker.to_owned(), "k".to_owned());
    (t, Event::Told { call: None, worker, key, token, until, grant: true, session: None })
}

#[test]
fn a_run_in_which_little_happened_is_worth_little() {
    let log = Log::default();
    let events = [
        told(1, "a", 1, 5),
        (2, Event::Seen { sight: Sight::Adoption }),
        told(6, "b", 2, 9),
        told(10, "b", 3, 12),
        told(13, "a", 4, 15),
    ];
    for (t, event) in events {
        log.push(t, event);
    }
    let report = check(&log.lines());
    assert!(report.violations.is_empty(), "{report}");
    let enough = Needs { take_overs: 2, adoptions: 1, grants: 4, ..Needs::default() };
    assert_eq!(report.demand(&enough), Ok(()));
    let more = Needs { take_overs: 3, adoptions: 1, ambiguous: 2, ..Needs::default() };
    let short = report.demand(&more).unwrap_err();
    assert_eq!(short, "too little happened: ambiguous: 0 of 2, take_overs: 2 of 3");
}

const FATES: &str = "What became of leases.
      0 told a held 1 until 200 granted
    190 told a held 1 until 400
      0 told a resumed 1 until 200 granted
    290 told a resumed 1 until 400
      0 told a released 1 until 200 granted
    180 shut a released 1 released
      0 told a forgotten 1 until 200 granted
    200 shut a forgotten 1 forgotten
      0 told a taken 1 until 200 granted
    180 shut a taken 1 lost
    250 told b taken 2 until 400 granted
      0 told a silent 1 until 200 granted
    160 told b later 2 until 400 granted
";

#[test]
fn leases_are_kept_given_back_or_lost() {
    let lines = case::Case::parse("fates", FATES).lines;
    let became = fortunes(&lines, 150_000_000, 300_000_000);
    assert_eq!((became.kept, became.given_back), (2, 2), "{became:?}");
    let silent = "silent of a, token 1: its guarantee ended and no heartbeat was answered";
    assert_eq!(became.lost, [silent, "taken of a, token 1: lost"]);
    assert!((became.share() - 0.5).abs() < f64::EPSILON, "{became}");
}

#[test]
fn a_history_is_written_and_read() {
    let log = Log::default();
    for case in case::all() {
        for line in case.lines {
            log.push(line.t, line.event);
        }
    }
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("a.jsonl");
    log.write_to(&path).expect("written");
    assert_eq!(read(&path).expect("read"), log.lines());
    // Its writer was killed in the middle of a line.
    let mut text = std::fs::read_to_string(&path).expect("text");
    text.truncate(text.len() - 5);
    std::fs::write(&path, text).expect("written");
    assert_eq!(read(&path).expect("read").len(), log.len() - 1);
}

/// Of many violations of one key a few are told, and the rest is counted.
#[test]
fn a_flood_of_violations_is_not_told_in_full() {
    let log = Log::default();
    for token in 0..1_000 {
        let (t, event) = told(token, &format!("w{token}"), token + 1, 2_000);
        log.push(t, event);
    }
    let report = check(&log.lines());
    assert_eq!((report.violations.len(), report.untold), (3, 996));
}

#[test]
fn every_operation_has_a_name() {
    let line = Line {
        t: 1,
        event: Event::Asked {
            call: 1,
            worker: "a".into(),
            op: Op::AcquireAny,
            key: "k".into(),
            answer_by: None,
        },
    };
    let text = serde_json::to_string(&line).expect("JSON");
    assert!(text.contains("\"acquire-any\"") && text.contains("\"asked\""), "{text}");
}
