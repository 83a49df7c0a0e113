//! The revocation list: orders, lost tails, and entries of later versions.

use std::path::Path;

use super::*;

fn file(principals: &[(&str, &str)]) -> Access {
    let table = |(name, more): &(&str, &str)| {
        format!(
            "[[principal]]\nname = \"{name}\"\n{more}\nmay = [{{ verb = [\"access\", \"observe\"] }}]\n"
        )
    };
    let content: Vec<String> = principals.iter().map(table).collect();
    Access::parse(Path::new("f"), &content.concat(), 0).expect("a file")
}

const ALL: Doors = Doors { uids: true, certificates: true };

fn token(token: &str) -> String {
    format!("token = \"{}\"", TokenDigest::of(token))
}

fn bearer(token: &str) -> Credential {
    Credential::Bearer(TokenDigest::of(token))
}

fn words(at_ms: u64, until_ms: Option<u64>) -> Revocation {
    Revocation {
        by: "admin".into(),
        reason: "leaked".into(),
        at_ms,
        until_ms,
        ..Revocation::default()
    }
}

fn order(target: Target, revokes: bool) -> AccessOrder {
    AccessOrder { target, revokes }
}

#[test]
fn who_is_revoked_is_so_until_that_ends_and_others_are_not() {
    let access = file(&[("admin", &token("a")), ("leaver", &token("l"))]);
    let leaver = || Target::Principal("leaver".into());
    let mut list = Revoked::default();
    list.carry_out(&order(leaver(), true), words(100, None), &access, ALL)
        .expect("another is left");
    for shown in [bearer("l"), bearer("any"), Credential::Other] {
        assert!(list.revokes("leaver", &shown, 100), "{shown:?}");
        assert!(!list.revokes("admin", &shown, 100), "{shown:?}");
        assert!(!list.revokes("leaver2", &shown, 100), "{shown:?}");
    }
    let again = list.carry_out(&order(leaver(), true), words(200, None), &access, ALL);
    assert_eq!((again, list.changes), (Err(NotCarriedOut::Known), 1));
    let shorter = list.carry_out(&order(leaver(), true), words(200, Some(30_000)), &access, ALL);
    assert_eq!(shorter, Err(NotCarriedOut::Known), "it shortens nothing");
    list.carry_out(&order(leaver(), false), words(200, None), &access, ALL).expect("it stands");
    list.carry_out(&order(leaver(), true), words(200, Some(30_000)), &access, ALL).expect("an end");
    assert!(
        list.revokes("leaver", &bearer("l"), 29_999)
            && !list.revokes("leaver", &bearer("l"), 30_000)
    );
    let end = list.carry_out(&order(leaver(), false), words(30_000, None), &access, ALL);
    assert_eq!(end, Err(NotCarriedOut::Known), "it is over");
    list.carry_out(&order(leaver(), true), words(40_000, None), &access, ALL).expect("again");
    assert_eq!(list.entries.len(), 1, "what is over is left out");
    list.carry_out(&order(leaver(), false), words(50_000, None), &access, ALL).expect("it ends");
    assert!(!list.revokes("leaver", &bearer("l"), 50_000) && list.entries.is_empty());
    assert_eq!(list.changes, 5);
}

#[test]
fn a_token_or_a_certificate_alone_is_revoked_too() {
    let access = file(&[("admin", &token("a"))]);
    let mut list = Revoked::default();
    let certificate = |name: &str| Target::certificate(name).expect("a name");
    let digest = TokenDigest::of("der");
    let targets = [
        Target::Token(TokenDigest::of("leaked")),
        certificate("Worker.Example"),
        certificate(&digest.to_string()),
        certificate("spiffe://prod/ns/x"),
    ];
    for target in targets {
        list.carry_out(&order(target, true), words(1, None), &access, ALL).expect("carried out");
    }
    let shown = |names: &[&str], der: &str| {
        let all = names.iter().map(|name| (*name).to_owned());
        let (uris, dns) = all.partition(|name: &String| name.contains(':'));
        let names = CertificateNames { uris, dns };
        Credential::Certificate { names, digest: TokenDigest::of(der) }
    };
    assert!(list.revokes("p", &bearer("leaked"), 2) && !list.revokes("p", &bearer("other"), 2));
    assert!(list.revokes("p", &shown(&["a", "worker.example"], "x"), 2));
    assert!(list.revokes("p", &shown(&["spiffe://prod/ns/x"], "x"), 2));
    assert!(list.revokes("p", &shown(&[], "der"), 2));
    assert!(!list.revokes("p", &shown(&["spiffe://prod/ns/xy", "b"], "x"), 2));
    assert!(!list.revokes("p", &Credential::Other, 2));
    for odd in [
        "",
        "*.example",
        "sha256:12",
        "a\nb",
        "a\u{200b}b",
        "CN=client",
        " worker.example",
        "worker.example.",
        "192.168.0.1",
    ] {
        assert!(Target::certificate(odd).is_err(), "{odd:?}");
    }
}

#[test]
fn a_principal_is_left_that_can_undo_it() {
    let access = file(&[("one", &token("1")), ("two", &token("2"))]);
    let mut list = Revoked::default();
    let named = |name: &str| order(Target::Principal(name.into()), true);
    list.carry_out(&named("one"), words(1, None), &access, ALL).expect("two is left");
    for last in [named("two"), order(Target::Token(TokenDigest::of("2")), true)] {
        let refused = list.carry_out(&last, words(2, Some(9)), &access, ALL);
        assert_eq!((refused, list.changes), (Err(NotCarriedOut::LocksOut), 1));
    }
    let others = file(&[("one", &token("1")), ("two", &token("2")), ("three", "uid = [7]")]);
    list.carry_out(&named("two"), words(2, None), &others, ALL).expect("three is left");
    let last = list.carry_out(&named("three"), words(3, None), &others, ALL);
    assert_eq!(last, Err(NotCarriedOut::LocksOut));
    // A principal whom no open door lets in cannot undo it.
    let with = file(&[
        ("one", &token("1")),
        ("two", "uid = [7]"),
        ("three", "cert = \"spiffe://prod/admin\""),
    ]);
    for (uids, certificates) in [(false, false), (true, false), (false, true)] {
        let mut list = Revoked::default();
        let doors = Doors { uids, certificates };
        let first = list.carry_out(&named("one"), words(1, None), &with, doors);
        assert_eq!(first.is_ok(), uids || certificates, "{doors:?}");
    }
}

#[test]
fn a_store_that_lost_its_tail_ends_no_revocation() {
    let access = file(&[("admin", &token("a"))]);
    let mut list = Revoked::default();
    let named = |name: &str, revokes| order(Target::Principal(name.into()), revokes);
    list.carry_out(&named("x", true), words(1, None), &access, ALL).expect("carried out");
    let lost_its_tail = list.clone();
    list.carry_out(&named("y", true), words(2, None), &access, ALL).expect("carried out");
    for store in [lost_its_tail, Revoked::default()] {
        let (mut now, went_back) = store.after(&list);
        assert!(went_back && now.revokes("x", &Credential::Other, 3));
        assert!(now.revokes("y", &Credential::Other, 3));
        // The next order writes all of it.
        now.carry_out(&named("x", false), words(3, None), &access, ALL).expect("carried out");
        assert_eq!(now.clone().after(&list), (now.clone(), false));
        assert!(
            now.revokes("y", &Credential::Other, 4) && !now.revokes("x", &Credential::Other, 4)
        );
    }
}

#[test]
fn as_many_new_orders_as_were_lost_end_no_revocation() {
    let access = file(&[("admin", &token("a"))]);
    let mut known = Revoked::default();
    let named = |name: &str, revokes| order(Target::Principal(name.into()), revokes);
    known.carry_out(&named("x", true), words(1, None), &access, ALL).expect("carried out");
    let lost_its_tail = known.clone();
    known.carry_out(&named("y", true), words(2, None), &access, ALL).expect("carried out");
    for new in [1, 2, 100] {
        let mut store = lost_its_tail.clone();
        for at in 0..new {
            let name = format!("z{at}");
            store.carry_out(&named(&name, true), words(3, None), &access, ALL).expect("new");
        }
        let (both, went_back) = store.clone().after(&known);
        assert!(went_back && both.changes >= known.changes.max(store.changes), "{new}");
        for name in ["x", "y", "z0"] {
            assert!(both.revokes(name, &Credential::Other, 4), "{new}: {name}");
        }
        // A second look at the same list says the same, and the next order stores all of it.
        assert_eq!(store.after(&both), (both.clone(), true), "{new}");
        let mut next = both.clone();
        next.carry_out(&named("y", false), words(5, None), &access, ALL).expect("carried out");
        for before in [&both, &known] {
            assert_eq!(next.clone().after(before), (next.clone(), false), "{new}");
        }
    }
    // A node that follows each order takes the list as it is, however long it follows.
    let mut list = Revoked::default();
    for at in 0..2 * ORDERS as u64 {
        let before = list.clone();
        let next = named("x", at % 2 == 0);
        list.carry_out(&next, words(at, None), &access, ALL).expect("carried out");
        assert_eq!(list.clone().after(&before), (list.clone(), false), "{at}");
    }
    assert_eq!(list.orders.len(), ORDERS);
}

#[test]
fn what_a_later_version_wrote_is_kept_and_hides_nothing() {
    let value = r#"{"changes":3,"entries":[{"subject":"s","by":"b"},{"principal":"x","by":"b","reason":"r","at_ms":1,"more":true}],"later":7}"#;
    let list = Revoked::of_value(Some(value)).expect("a list");
    assert!(list.revokes("x", &Credential::Other, 5));
    let again = list.to_value();
    assert!(again.contains("\"later\":7") && again.contains("\"subject\":\"s\""), "{again}");
    assert!(again.contains("\"more\":true"), "{again}");
    assert_eq!(Revoked::of_value(Some(&again)).expect("a list"), list);
    assert!(Revoked::of_value(Some("[]")).is_err() && Revoked::of_value(None).is_ok());
}
