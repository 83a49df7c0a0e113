//! A program with its coordinator inside is notified too.

use tenure::{
    lease::{Key, Owner, Release},
    manager::{AcquireOne, Tenure},
    settings::Sources,
};

use crate::{
    notifications::kit::{kind, recorder, told},
    support::clock::eventually,
};

#[tokio::test]
async fn a_plugin_of_an_embedded_coordinator_is_notified_and_goes_on_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("tenure.toml");
    let on = "on = [\"granted\", \"released\"]\nprefix = \"job/\"";
    let data = dir.path().join("data");
    let store = format!("[store.embedded]\ndata_dir = {:?}\n", data.display().to_string());
    std::fs::write(&file, store + &recorder(dir.path(), "hook", on)).expect("a file");
    let none: [(String, String); 0] = [];
    let loaded = Sources::new().environment(none).file(Some(&file)).load();
    let settings = loaded.unwrap_or_else(|faults| panic!("{faults}")).settings;
    for round in 1..=2 {
        let tenure = Tenure::start(settings.clone()).await.expect("it starts");
        let key = |name: &str| Key::new(name).expect("a key");
        let owner = Owner::new("w").expect("an owner");
        // What comes before the first position is stored is not told.
        eventually("it is notified", async || {
            for name in ["job/1", "other"] {
                let one = AcquireOne::new(key(name), owner.clone(), 60_000);
                let grant = tenure.acquire(&one, tenure.now()).await.expect("granted");
                let release = Release::new(grant.lease_id);
                tenure.release(name, release, tenure.now()).await.expect("released");
            }
            told(dir.path(), "hook").len() >= 4 * round
        })
        .await;
        tenure.stop().await;
    }
    let told = told(dir.path(), "hook");
    assert!(told.iter().all(|event| event["subject"] == "job/1"), "{told:?}");
    let mut numbers: Vec<_> = told.iter().map(|event| event["data"]["seq"].as_u64()).collect();
    numbers.dedup();
    assert!(numbers.is_sorted(), "{numbers:?}");
    assert!(told.iter().all(|event| ["granted", "released"].contains(&kind(event))));
    assert_eq!(told[0]["source"], "/tenure");
}
