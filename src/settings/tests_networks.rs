use super::{
    tests::{faults, file, sources},
    *,
};

#[test]
fn every_layer_can_name_them_and_they_are_shown_as_they_read_back() {
    let networks = ["10.0.0.0/8:8080".parse(), "[::1]/128:9000-9100".parse()];
    let networks: Vec<Network> = networks.into_iter().flatten().collect();
    let of = |sources: &Sources| -> Loaded { sources.load().expect("valid settings") };
    let content = "[checks]\nallow = [\"10.0.0.0/8:8080\", \"[::1]/128:9000-9100\"]\n";
    let written = file(content);
    let from_file = of(&sources(Some(written.path())));
    let text = "10.0.0.0/8:8080, [::1]:9000-9100";
    let by_flag = of(&sources(None).set(&format!("checks.allow={text}")));
    let by_environment = of(&Sources::new().environment([("TENURE__CHECKS__ALLOW", text)]));
    for loaded in [&from_file, &by_flag, &by_environment] {
        assert_eq!(loaded.settings.checks.allow, CheckTargets::Only(networks.clone()));
        let shown = file(&loaded.to_toml(true));
        assert_eq!(of(&sources(Some(shown.path()))).settings, loaded.settings);
    }
    for nothing in ["[checks]\nallow = []\n", "[checks]\nallow = \"\"\n"] {
        let written = file(nothing);
        let loaded = of(&sources(Some(written.path())));
        assert_eq!(loaded.settings.checks.allow, CheckTargets::Only(Vec::new()));
    }
    let wrong = file("[checks]\nallow = [\"10.0.0.0/8\", \"localhost:80\"]\n");
    let [fault] = &faults(&sources(Some(wrong.path())))[..] else { panic!("one fault") };
    let told = "checks.allow: \"localhost:80\" is no network such as";
    assert!(fault.contains(":2: ") && fault.contains(told), "{fault}");
}
