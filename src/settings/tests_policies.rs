use std::time::Duration;

use super::{
    tests::{faults, file, sources},
    *,
};

#[test]
fn every_fault_of_a_policy_is_told_with_its_line() {
    let file = file(concat!(
        "[[policy]]\n",                   // 1
        "prefix = \"a/\"\n",              // 2
        "pool = \"Big One\"\n",           // 3
        "ttl_min = \"2s\"\n",             // 4
        "ttl_max = \"1s\"\n",             // 5
        "lock_delay = \"61s\"\n",         // 6
        "fence = [\"cut\"]\n",            // 7
        "fence_when = \"never\"\n",       // 8
        "fence_timeout = 30\n",           // 9
        "on_fence_failure = \"panic\"\n", // 10
        "fence_on_release = \"maybe\"\n", // 11
        "colour = \"red\"\n",             // 12
        "[[policy]]\n",                   // 13
        "prefix = \"a/\"\n",              // 14
        "fence = \"cut\"\n",              // 15
        "handover_timeout = \"2h\"\n",    // 16
        "[[policy]]\n",                   // 17
        "pool = \"p\"\n",                 // 18
        "ttl_max = \"1ms\"\n",            // 19
        "[[policy]]\n",                   // 20
        "keys = 0\n",                     // 21
        "[[policy]]\n",                   // 22
        "prefix = \"c/\"\n",              // 23
        "keys = 2.5\n",                   // 24
    ));
    let found = faults(&sources(Some(file.path())).set("policy.prefix=b"));
    let expected = [
        (3, "policy.pool: must be 1 to 64 of a-z, 0-9, _ and -"),
        (4, "policy.ttl_min: leaves no ttl: ttl_min is 2s, and ttl_max is 1s"),
        (6, "policy.lock_delay: is 61s; must be from 0s to 1m"),
        (7, "policy.fence: names \"cut\", and no [[plugin]] has that name"),
        (8, "policy.fence_when: invalid value: string \"never\", expected \"before-grant\" or"),
        (9, "policy.fence_timeout: invalid value: integer `30`, expected a duration"),
        (10, "policy.on_fence_failure: invalid value: string \"panic\""),
        (11, "policy.fence_on_release: invalid value: string \"maybe\", expected true or false"),
        (12, "policy.colour: no such key; [[policy]] has prefix, pool, ttl_min"),
        (14, "policy.prefix: is \"a/\", as that of another policy"),
        (15, "policy.fence: must be texts in brackets"),
        (16, "policy.handover_timeout: is 2h; must be from 10ms to 1h"),
        (17, "policy.prefix: must be given"),
        (19, "policy.ttl_max: is 1ms; must be from 10ms to 366d"),
        (19, "policy.ttl_max: leaves no ttl: limits.ttl_min is 100ms, and ttl_max is 1ms"),
        (20, "policy.prefix: must be given"),
        (21, "policy.keys: is 0; must be from 1 to 1000000000"),
        (24, "policy.keys: invalid type: floating point `2.5`, expected a whole number"),
    ];
    for (line, problem) in &expected {
        let wanted = format!("{}:{line}: {problem}", file.path().display());
        assert!(found.iter().any(|f| f.starts_with(&wanted)), "{wanted}\nin {found:#?}");
    }
    let flag = "flag --set policy.prefix=b: policy.prefix: is a list of tables, written [[policy]]";
    assert!(found.iter().any(|f| f.starts_with(flag)), "{found:#?}");
    // The fourth policy has no prefix, like the third.
    assert_eq!(found.len(), expected.len() + 2, "{found:#?}");
}

#[test]
fn pools_policies_and_plugins_are_bounded_and_known() {
    let many = |count: usize| -> Vec<Policy> {
        let one =
            |n| Policy { prefix: format!("{n}/"), pool: format!("p{n}"), ..Policy::default() };
        (0..count).map(one).collect()
    };
    let limits = Limits::default();
    let faults = |policies: &[Policy]| policies::faults(policies, &limits, &["cut".to_owned()]);
    assert!(faults(&many(16)).is_empty());
    assert!(faults(&many(17))[0].2.contains("at most 16 pools"));
    let fence = |names: &[&str]| {
        let fence = names.iter().map(|&name| name.to_owned()).collect();
        [Policy { prefix: "a".into(), fence, ..Policy::default() }]
    };
    assert!(faults(&fence(&["cut"])).is_empty());
    assert!(faults(&fence(&["cut", "cut"]))[0].2.contains("twice"));
    let fenced = Settings { policies: fence(&["cut"]).into(), ..Settings::default() };
    let plan = fenced.lease_policies().of("abc").fence.clone().unwrap();
    assert_eq!((plan.plugins.len(), plan.timeout_ms, plan.on_release), (1, 30_000, false));
    let narrow = Settings {
        limits: Limits { ttl_max: Duration::from_secs(1), ..Limits::default() },
        ..Settings::default()
    };
    let wide = Policy { ttl_min: Some(Duration::from_secs(2)), ..Policy::default() };
    assert!(narrow.with_policies(vec![wide], Vec::new()).unwrap_err()[0].contains("leaves no ttl"));
    assert_eq!(narrow.differing(&Settings::default()), ["limits.ttl_max"]);
}

#[test]
fn entries_about_labels_that_contradict_or_repeat_each_other_are_faults() {
    let file = file(concat!(
        "[[policy]]\n",                                      // 1
        "prefix = \"a/\"\n",                                 // 2
        "require = [\"gpu=a\", \"zone!=x\", \"gpu=b\"]\n",   // 3
        "prefer = [\"disk=ssd\", \"gpu\", \"disk=ssd\"]\n",  // 4
        "[[policy]]\n",                                      // 5
        "prefix = \"b/\"\n",                                 // 6
        "require = [\"!gpu\", \"gpu=a\", \"!gpu\"]\n",       // 7
        "[[policy]]\n",                                      // 8
        "prefix = \"c/\"\n",                                 // 9
        "require = [\"zone!=a\", \"zone!=b\", \"zone\"]\n",  // 10
        "prefer = [\"gpu=h100\", \"gpu=a100\", \"!gpu\"]\n", // 11
    ));
    let found = faults(&sources(Some(file.path())));
    let expected = [
        (3, "policy.require: has gpu=a and gpu=b, which no member meets both"),
        (4, "policy.prefer: has disk=ssd twice"),
        (7, "policy.require: has !gpu and gpu=a, which no member meets both"),
        (7, "policy.require: has !gpu twice"),
        (7, "policy.require: has gpu=a and !gpu, which no member meets both"),
    ];
    for (line, problem) in &expected {
        let wanted = format!("{}:{line}: {problem}", file.path().display());
        assert!(found.contains(&wanted), "{wanted}\nin {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}
