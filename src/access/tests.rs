use std::{os::unix::fs::PermissionsExt as _, path::Path};

use proptest::prelude::*;

use super::{principal::Parts, *};
use crate::clock::{SeededEntropy, SystemEntropy};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// 2027-01-20T00:00:00Z
const NOW_MS: u64 = 1_801_440_000_000 - 12 * DAY_MS;

pub(super) fn parse(content: &str) -> Result<Access, Vec<String>> {
    let read = Access::parse(Path::new("a.toml"), content, NOW_MS);
    read.map_err(|faults| faults.0.iter().map(ToString::to_string).collect())
}

fn digest(n: u8) -> String {
    TokenDigest::of(&format!("token {n}")).to_string()
}

/// The example of `docs/access.md`.
fn example() -> Access {
    let content = format!(
        r#"
[[principal]]
name = "shard-worker"
token = ["{}", "{}"]
cert = ["spiffe://prod/ns/shards/sa/worker", "*.worker.example"]
uid = [1000, 1001]
owner = ["shard-*", "{{name}}"]
may = [
  {{ verb = ["hold", "read"], prefix = "shards/" }},
  {{ verb = "hold", prefix = "jobs/" }},
  {{ verb = "probe" }},
]
limit = {{ rate = 900, waits = 2000, weight = 4 }}
expires = 2027-01-31

[[principal]]
name = "operator"
token = "{}"
cert = ["Admin.Example.com", "spiffe://prod/ns/*"]
may = [{{ verb = ["read", "check", "admin", "break"], prefix = "" }}]
"#,
        digest(1),
        digest(2),
        digest(3)
    );
    parse(&content).unwrap()
}

#[test]
fn a_principal_is_found_by_each_of_its_credentials() {
    let access = example();
    let name = |found: Option<&std::sync::Arc<Principal>>| found.map(|one| one.name.to_string());
    let (worker, operator) = (Some("shard-worker".to_owned()), Some("operator".to_owned()));
    assert_eq!(name(access.by_token("token 1")), worker);
    assert_eq!(name(access.by_token("token 2")), worker);
    assert_eq!(name(access.by_token("token 3")), operator);
    assert_eq!([access.by_token("token 4"), access.by_token("")], [None; 2]);
    assert_eq!((name(access.by_uid(1001)), access.by_uid(0)), (worker.clone(), None));
    assert_eq!(
        (name(access.by_name("operator")), access.by_name("Operator")),
        (operator.clone(), None)
    );
    assert_eq!(access.principals().len(), 2);
    let by = |names: &[&str]| {
        let (uris, dns) =
            names.iter().map(ToString::to_string).partition(|name: &String| name.contains(':'));
        name(access.by_certificate(&CertificateNames { uris, dns }))
    };
    // An exact name before a beginning, and the longer beginning before the shorter one.
    assert_eq!(by(&["spiffe://prod/ns/shards/sa/worker"]), worker);
    assert_eq!(by(&["spiffe://prod/ns/other"]), operator);
    assert_eq!(by(&["ADMIN.example.COM"]), operator);
    assert_eq!(by(&["a.worker.example"]), worker);
    assert_eq!((by(&["elsewhere"]), by(&["a.b.worker.example"])), (None, None));
    // A URI is compared as it is.
    assert_eq!(by(&["SPIFFE://prod/ns/other"]), None);
    // Names of two principals are the names of none.
    assert_eq!(by(&["admin.example.com", "spiffe://prod/ns/shards/sa/worker"]), None);
    assert_eq!(by(&["admin.example.com", "spiffe://prod/ns/x"]), operator);
    assert_eq!(by(&[]), None);
}

#[test]
fn rights_add_up_and_nothing_else_is_allowed() {
    let access = example();
    let worker = access.by_name("shard-worker").unwrap();
    assert!(worker.may(Verb::Hold, "shards/1") && worker.may(Verb::Hold, "jobs/1"));
    assert!(worker.may(Verb::Read, "shards/") && !worker.may(Verb::Read, "jobs/1"));
    assert!(!worker.may(Verb::Hold, "shards") && !worker.may(Verb::Hold, "my/shards/1"));
    assert!(worker.may_all_of(Verb::Hold, "shards/a") && !worker.may_all_of(Verb::Hold, "s"));
    assert!(worker.has(Verb::Probe) && worker.keys(Verb::Probe).is_everything());
    for verb in [Verb::Check, Verb::Admin, Verb::Break, Verb::Observe] {
        assert!(!worker.has(verb) && !worker.may(verb, "shards/1"), "{verb}");
    }
    let operator = access.by_name("operator").unwrap();
    assert!(operator.may_all_of(Verb::Break, "") && !operator.has(Verb::Hold));

    assert!(
        worker.acts_as("shard-") && worker.acts_as("shard-7") && worker.acts_as("shard-worker")
    );
    assert!(!worker.acts_as("shard") && !worker.acts_as("operator") && !worker.acts_as(""));
    assert!(operator.acts_as("operator") && operator.acts_as("operator/laptop"));
    assert!(!operator.acts_as("operators") && !operator.acts_as("OPERATOR"));

    assert_eq!(worker.limit().fields()[0], ("rate", Some(900)));
    assert_eq!(worker.limit().fields()[3], ("waits", Some(2000)));
    assert_eq!((worker.limit().weight, worker.limit().streams), (Some(4), None));
    assert_eq!(*operator.limit(), Limit::default());
    assert!(!worker.expired(NOW_MS + 12 * DAY_MS - 1) && worker.expired(NOW_MS + 12 * DAY_MS));
    assert!(!operator.expired(u64::MAX));
}

#[test]
fn a_file_is_warned_of_what_others_should_look_at() {
    let access = example();
    assert_eq!(access.warnings(), ["principal \"shard-worker\" expires in 11 d, after 2027-01-31"]);
    let later = |days: u64| {
        let content = "[[principal]]\nname = \"w\"\nuid = 1\nexpires = 2027-01-31\nmay = [{verb = \"observe\"}]";
        Access::parse(Path::new("a"), content, NOW_MS + days * DAY_MS).unwrap().warnings().to_vec()
    };
    assert!(later(11)[0].contains("at the end of this day") && later(12)[0].contains("expired"));
    assert_eq!(Access::parse(Path::new("a"), OVERLAPPING, NOW_MS).unwrap().warnings(), [""; 0]);
    let review = parse(OVERLAPPING).unwrap().review();
    assert_eq!(
        review,
        [
            "principal \"a\": hold in { verb = \"hold\", prefix = \"jobs/x/\" } (line 6) is already in \
             { verb = [\"hold\", \"read\"], prefix = \"jobs/\" } (line 5)",
            "principal \"a\": read in { verb = \"read\", prefix = \"jobs/\" } (line 7) is already in \
             { verb = [\"hold\", \"read\"], prefix = \"jobs/\" } (line 5)",
            "principals \"a\" and \"b\" may hold common keys under common owners (a/* and a/b)",
        ]
    );
}

const OVERLAPPING: &str = r#"[[principal]]
name = "a"
uid = 1
may = [
  { verb = ["hold", "read"], prefix = "jobs/" },
  { verb = "hold", prefix = "jobs/x/" },
  { verb = "read", prefix = "jobs/" },
]
[[principal]]
name = "b"
uid = 2
owner = ["b", "a/b"]
may = [{ verb = "hold", prefix = "jobs/y/" }]
[[principal]]
name = "c"
uid = 3
owner = "a/b"
may = [{ verb = "hold", prefix = "shards/" }]
"#;

#[test]
fn a_file_is_warned_of_what_ends_within_a_word() {
    let content = r#"[[principal]]
name = "w"
cert = ["spiffe://prod/ns/a*", "spiffe://prod/ns/b/*", "*.example"]
owner = ["shard*", "shard-*", "*", "{name}*"]
may = [
  { verb = "hold", prefix = "deploy" },
  { verb = "hold", prefix = "jobs/" },
  { verb = "read", prefix = "" },
  { verb = "check", key = "deploy" },
]
"#;
    let access = parse(content).unwrap();
    let found = access.warnings();
    assert_eq!(found.len(), 4, "{found:#?}");
    assert!(found[0].contains(r#"owner "shard*" ends within a word"#), "{found:#?}");
    assert!(found[1].contains(r#"owner "w*" ends within a word"#), "{found:#?}");
    assert!(found[2].contains(r#"cert "spiffe://prod/ns/a*" ends within"#), "{found:#?}");
    assert!(
        found[3].contains(r#"prefix "deploy" (line 6)"#) && found[3].contains(r#"key = "deploy""#)
    );
    assert!(access.review().starts_with(found));
}

#[test]
fn a_right_to_one_key_is_for_that_key_and_its_permits() {
    let content = r#"[[principal]]
name = "w"
uid = 1
may = [{ verb = ["hold", "admin"], key = "deploy/lock" }, { verb = "hold", prefix = "jobs/" }]
"#;
    let access = parse(content).unwrap();
    let worker = access.by_name("w").unwrap();
    for verb in [Verb::Hold, Verb::Admin] {
        assert!(worker.may(verb, "deploy/lock") && worker.may(verb, "deploy/lock#3"));
        for other in ["deploy/lock2", "deploy/lock/1", "deploy/", "deploy/lock#x", "x/deploy/lock"]
        {
            assert!(!worker.may(verb, other), "{verb} {other}");
        }
        assert!(!worker.may_all_of(verb, "deploy/lock") && worker.has(verb));
    }
    assert!(!worker.has(Verb::Read) && worker.may(Verb::Hold, "jobs/1"));
}

#[test]
fn a_file_that_others_may_write_is_refused_and_one_that_they_may_read_is_warned_of() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), OVERLAPPING).unwrap();
    let read = |mode: u32| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(file.path(), mode).unwrap();
        Access::read(file.path(), NOW_MS)
    };
    assert_eq!(read(0o600).unwrap().warnings(), [""; 0]);
    assert!(read(0o640).unwrap().warnings()[0].contains("mode 0640"));
    for mode in [0o620, 0o602, 0o666] {
        let fault = read(mode).unwrap_err().to_string();
        assert!(fault.starts_with(&format!("{}: has mode", file.path().display())), "{fault}");
        assert!(fault.contains("chmod go-w"), "{fault}");
    }
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path(), &dir.path().join("none")] {
        let fault = Access::read(path, NOW_MS).unwrap_err().to_string();
        assert!(fault.contains("cannot be read"), "{fault}");
    }
}

#[test]
fn a_replacement_is_another_generation() {
    let current = Current::new(example());
    assert_eq!((current.generation(), current.load().principals().len()), (1, 2));
    current.replace(parse(OVERLAPPING).unwrap());
    assert_eq!((current.generation(), current.load().principals().len()), (2, 3));
}

#[test]
fn no_token_is_shown() {
    let token = Token::draw(&SystemEntropy::new());
    let content = format!(
        "[[principal]]\nname = \"w\"\ntoken = \"{}\"\nmay = [{{verb = \"observe\"}}]",
        token.digest()
    );
    let access = parse(&content).unwrap();
    let found = access.by_token(token.reveal()).unwrap();
    assert_eq!(access.by_token(&token.reveal()[..52]), None);
    assert!(!format!("{access:?}{found:?}{found}{token:?}").contains(&token.reveal()[4..]));
}

fn principals() -> impl Strategy<Value = Vec<(String, Parts)>> {
    let right = (prop::sample::subsequence(Verb::ALL[..5].to_vec(), 1..=5), "[a-c/ü\"\\\\]{0,6}");
    let rights = prop::collection::vec(right, 0..4);
    let limit = prop::array::uniform7(prop::option::of(1..u32::MAX));
    let rest = (prop::option::of(0..20_000_u64), any::<bool>(), any::<bool>());
    let one = (rights, prop::collection::vec("[a-c{}/\"]{1,6}[*]?", 0..3), limit, rest);
    prop::collection::vec(one, 1..5).prop_map(|all| {
        let made = all.into_iter().enumerate().map(|(at, (rights, owners, limit, rest))| {
            let (days, probe, certificate) = rest;
            let name = format!("p{at} \"ü\\");
            let keyed = rights.into_iter().map(|(verbs, prefix)| Right {
                verbs: verbs.into(),
                scope: Some(match prefix.strip_prefix('a').filter(|key| !key.is_empty()) {
                    Some(key) => Scope::Key(key.into()),
                    None => Scope::Prefix(prefix.into()),
                }),
                line: 0,
            });
            let without =
                Right { verbs: [Verb::Probe, Verb::Observe].into(), scope: None, line: 0 };
            let mut rights: Vec<_> = keyed.chain(probe.then_some(without.clone())).collect();
            if rights.is_empty() {
                rights.push(without);
            }
            let mut owners: Vec<_> =
                owners.iter().filter_map(|text| OwnerPattern::parse(text, &name).ok()).collect();
            if owners.is_empty() {
                owners = OwnerPattern::default_of(&name).unwrap();
            }
            let mut set = Limit::default();
            for (field, value) in Limit::FIELDS.into_iter().zip(limit) {
                *set.field_mut(field).unwrap() = value;
            }
            let expires = days.and_then(|days| {
                let day = crate::clock::rfc3339(days * DAY_MS);
                Date::new(day[..4].parse().ok()?, day[5..7].parse().ok()?, day[8..10].parse().ok()?)
            });
            let tag = u8::try_from(at).unwrap();
            let parts = Parts {
                tokens: vec![Token::draw(&SeededEntropy::new(at as u64)).digest()],
                certificates: certificate
                    .then(|| CertPattern::parse(&format!("spiffe://x/{at}/*")).unwrap())
                    .into_iter()
                    .collect(),
                uids: if probe { vec![u32::from(tag), 1000 + u32::from(tag)] } else { vec![] },
                subjects: Vec::new(),
                owners,
                rights,
                limit: set,
                expires,
            };
            (name, parts)
        });
        made.collect()
    })
}

proptest! {
    #[test]
    fn what_is_printed_is_read_as_it_was(parts in principals()) {
        let made: Vec<_> = parts.into_iter().map(|(name, parts)| Principal::new(&name, parts)).collect();
        let text: String = made.iter().map(|principal| format!("{principal}\n")).collect();
        let read = parse(&text).map_err(|faults| TestCaseError::fail(format!("{faults:?}\n{text}")))?;
        let read: Vec<_> = read.principals().iter().map(|principal| (**principal).clone()).collect();
        prop_assert_eq!(read, made, "{}", text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(\\[\\[principal\\]\\]|name|token|may|=|\"|\\{|\\[|\\]|\\}|\n|verb|[ -~])*") {
        let _ = parse(&text);
    }
}
