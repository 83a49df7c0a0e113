//! What an operator does with a store: restore one that went back to what it held some time ago, and look into
//! a backup for what no answer of a coordinator tells.

use std::process::Command;

use serde_json::Value;
use tenure::lease::{Key, KeyState, Record};

use crate::{
    clock::{ms, sleep_ms, within},
    nemesis::World,
    stores::Kind,
};

/// How long until every node found out that its store went backwards.
const NOTICE_MS: u64 = 120_000;

pub async fn restore(world: &mut World) {
    match world.servers.kind {
        Kind::Embedded => from_a_backup(world).await,
        _ => older_files(world).await,
    }
}

/// Stops the servers for as long as it takes to copy their disks, has the cluster go on for a while, and puts
/// the copies in place. Every node freezes; the operator raises the epoch, and they go on.
async fn older_files(world: &mut World) {
    stop_servers(world);
    world.servers.all.iter().for_each(|server| server.disk.snapshot());
    start_servers(world).await;
    for node in &mut world.nodes {
        node.ready().await;
    }
    let span = 2 * world.ttl_ms + world.below(3_000) as u64;
    sleep_ms(span).await;

    stop_servers(world);
    world.begins("restore", "the servers' disks");
    if world.servers.kind == Kind::Dynamodb {
        no_table_for_a_while(world).await;
    }
    world.servers.all.iter().for_each(|server| server.disk.restore());
    if world.servers.kind == Kind::Dynamodb {
        as_another_table(world);
    }
    start_servers(world).await;
    for node in &world.nodes {
        let mut last = String::new();
        let frozen = within(ms(NOTICE_MS), async || {
            last = node.unready().await;
            last.contains("frozen")
        })
        .await;
        assert!(frozen, "{} did not freeze: {last:?}", node.place);
    }
    // What was granted and forgotten is believed in until it runs out, and no record names it.
    sleep_ms(world.ttl_ms).await;
    let mut said = String::new();
    let raised = within(ms(NOTICE_MS), async || {
        match world.nodes[0].tenure(&world.net, &["restore", "--raise-epoch"]) {
            Ok(_) => return true,
            Err(why) => said = why,
        }
        // The epoch may be raised although the command did not learn of it.
        let mut all = true;
        for node in &world.nodes {
            all &= node.unready().await.is_empty();
        }
        all
    })
    .await;
    assert!(raised, "the epoch cannot be raised: {said}");
    let nodes = world.nodes.len();
    world.struck.push(format!(
        "the store went back by {span} ms, {nodes} nodes froze, the epoch was raised"
    ));
}

/// A table is deleted before another one is restored under its name: for that long there is none.
async fn no_table_for_a_while(world: &mut World) {
    world.servers.all[0].disk.clear();
    start_servers(world).await;
    for node in &world.nodes {
        let gone = within(ms(NOTICE_MS), async || node.unready().await.contains("was missing"));
        assert!(gone.await, "{} does not miss its table: {}", node.place, node.unready().await);
    }
    stop_servers(world);
}

/// DynamoDB restores into a new table, whose id is another one than before.
fn as_another_table(world: &World) {
    let database = world.servers.all[0].disk.path().join("database");
    let script = "import sqlite3, sys, uuid\nd = sqlite3.connect(sys.argv[1])\n\
                  d.execute('UPDATE _tables SET table_id = ?', (str(uuid.uuid4()),))\nd.commit()";
    let done =
        Command::new("python3").args(["-c", script]).arg(database).output().expect("python3");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn stop_servers(world: &mut World) {
    for n in 0..world.servers.all.len() {
        world.servers.kill(n);
    }
}

async fn start_servers(world: &mut World) {
    for n in 0..world.servers.all.len() {
        world.servers.launch(n, &world.net);
    }
    for n in 0..world.servers.all.len() {
        world.servers.ready(n).await;
    }
}

/// One process alone has an embedded store, and remembers nothing beside it: it cannot notice older files. So
/// its operator has the command that does: a backup is restored into an empty directory, under a new epoch.
async fn from_a_backup(world: &mut World) {
    let data = world.nodes[0].disk.as_ref().expect("a disk").path().join("data");
    let file = data.with_file_name("backup.jsonl");
    let _ = std::fs::remove_file(&file);
    let file = file.to_str().expect("UTF-8").to_owned();
    world.nodes[0].stop().await;
    world.nodes[0].tenure(&world.net, &["backup", "--file", &file]).expect("a backup");
    world.nodes[0].launch(&world.net);
    world.nodes[0].ready().await;
    let span = 2 * world.ttl_ms + world.below(3_000) as u64;
    sleep_ms(span).await;

    world.nodes[0].kill();
    world.begins("restore", "the node's disk");
    world.epoch += 1;
    let epoch = world.epoch.to_string();
    std::fs::remove_dir_all(&data).expect("it is there");
    sleep_ms(world.ttl_ms).await;
    let args = ["restore", "--file", &file, "--raise-epoch", "--epoch", &epoch];
    world.nodes[0].tenure(&world.net, &args).expect("it is restored");
    world.nodes[0].launch(&world.net);
    world.struck.push(format!("restored from a backup of {span} ms ago, under epoch {epoch}"));
}

/// The sessions that are over, as the store's records say, with the revision of their tombstones where revisions
/// are those of the history. An embedded store's node is stopped for it.
pub async fn tombstones(world: &mut World) -> Vec<(Option<u64>, String)> {
    let file = world.dir.join("backup-at-the-end.jsonl");
    let _ = std::fs::remove_file(&file);
    if world.servers.kind == Kind::Embedded {
        world.nodes[0].stop().await;
    }
    let args = ["backup", "--file", file.to_str().expect("UTF-8")];
    world.nodes[0].tenure(&world.net, &args).expect("a backup");
    let text = std::fs::read_to_string(&file).expect("it was written");
    let has_global_revisions = world.servers.kind != Kind::Dynamodb;
    let tombstone = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let session = Key::stored(line["key"].as_str()?).ok()?.session()?;
        let record = Record::decode(&unhex(line["record"].as_str()?)).expect("a record");
        let revision = line["revision"].as_u64().filter(|_| has_global_revisions);
        (record.state != KeyState::Held).then(|| (revision, session.to_string()))
    };
    text.lines().filter_map(tombstone).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal digits");
    (0..text.len()).step_by(2).map(digit).collect()
}
