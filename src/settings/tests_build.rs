use super::tests::{file, sources};

/// Settings that choose kinds that need a Cargo feature, and one kind that needs none.
const CHOSEN: &str = "[store]\nkind = \"nats\"\n[[plugin]]\nname = \"l\"\nkind = \"log\"\n\
    [[plugin]]\nname = \"n\"\nkind = \"nats\"\nsubject = \"f\"\n\
    [[plugin]]\nname = \"p\"\nkind = \"postgres\"\nurl = \"postgres://a\"\n";

#[test]
fn a_kind_that_a_build_lacks_is_a_fault_that_names_its_place_and_the_cargo_feature() {
    let file = file(CHOSEN);
    let loaded = sources(Some(file.path())).load().unwrap();
    let said = |optional: &[(&str, bool)]| {
        let faults = loaded.check_against(optional).err();
        faults.iter().flat_map(|faults| &faults.0).map(ToString::to_string).collect::<Vec<_>>()
    };
    let fault = |line: usize, key: &str, feature: &str| {
        let why = format!("this build of tenure was made without the Cargo feature `{feature}`");
        format!("{}:{line}: {key}: {why}", file.path().display())
    };
    let nats = [fault(2, "store.kind", "nats"), fault(8, "plugin[1].kind", "nats")];
    let postgres = fault(12, "plugin[2].kind", "postgres");
    assert_eq!(said(&[("nats", true), ("postgres", true), ("dynamodb", false)]), [""; 0]);
    assert_eq!(said(&[("nats", false), ("postgres", true)]), nats);
    assert_eq!(said(&[("postgres", false), ("nats", true)]), [postgres]);
    assert_eq!(said(&[("nats", false), ("postgres", false)]).len(), 3);
}

#[test]
fn a_build_takes_exactly_what_its_features_have() {
    let nats_and_postgres = cfg!(feature = "nats") && cfg!(feature = "postgres");
    let chosen = file(CHOSEN);
    let loaded = sources(Some(chosen.path())).load().unwrap();
    assert_eq!(loaded.check_build().is_ok(), nats_and_postgres);
    let loaded = sources(None).set("store.kind=dynamodb").load().unwrap();
    assert_eq!(loaded.check_build().is_ok(), cfg!(feature = "dynamodb"));
    assert_eq!(sources(None).load().unwrap().check_build(), Ok(()));
}
