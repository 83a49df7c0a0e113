//! What each fuzz target does with its bytes. A target that finds a fault panics.
//!
//! `fuzz_targets/` runs these under libFuzzer, and the test `fuzz` of the main crate on the seeds and on
//! random changes of them.

mod schema;

use std::sync::LazyLock;

use serde_json::Value;
use tenure::{
    fuzzing::{
        BODIES, Bucket, Refused, dynamodb_entry, dynamodb_key, dynamodb_partition_key,
        dynamodb_trail, read_cursor, read_query, read_settings, write_cursor,
    },
    lease::{CodecError, Key, LeaseId, NodeRecord, Owner, Record, Revision, SessionId},
    store::Position,
};

/// A target.
pub type Target = fn(&[u8]);

/// All of them, by name.
pub const TARGETS: [(&str, Target); 5] =
    [("record", record), ("key", key), ("cursor", cursor), ("body", body), ("settings", settings)];

/// Records of leases and nodes, and the coded parts of DynamoDB's items: reading never panics, what was read
/// is written and read again as the same, and a changed byte is refused.
///
/// The first byte says what they are, and whether they bring a checksum of their own.
pub fn record(data: &[u8]) {
    let Some((&what, data)) = data.split_first() else { return };
    let bytes = if what & 0x80 == 0 { sealed(data) } else { data.to_vec() };
    match what & 3 {
        0 => {
            let write = |record: &Record| {
                let mut out = Vec::new();
                record.encode_into(&mut out);
                out
            };
            coded(&bytes, what, Record::decode, write);
        }
        1 => {
            let write = |record: &NodeRecord| {
                let mut out = Vec::new();
                record.encode_into(&mut out);
                out
            };
            coded(&bytes, what, NodeRecord::decode, write);
        }
        // Already written anew.
        2 => coded(&bytes, what, dynamodb_entry, Clone::clone),
        _ => coded(&bytes, what, dynamodb_trail, Clone::clone),
    }
}

/// With a checksum that fits: no fuzzer guesses one.
fn sealed(data: &[u8]) -> Vec<u8> {
    let crc = crc32fast::hash(data).to_le_bytes();
    [data, &crc].concat()
}

fn coded<T: PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    what: u8,
    read: impl Fn(&[u8]) -> Result<T, CodecError>,
    write: impl Fn(&T) -> Vec<u8>,
) {
    let Ok(found) = read(bytes) else { return };
    let mut written = write(&found);
    assert_eq!(read(&written).as_ref(), Ok(&found), "it is written and read again");
    let at = usize::from(what >> 2) * 7 % written.len();
    written[at] ^= (what | 1).rotate_left(u32::from(what & 7));
    assert!(read(&written).is_err(), "a changed byte at {at} is not noticed");
}

static BUCKET: LazyLock<Bucket> = LazyLock::new(|| Bucket::new("b"));
const SUBJECTS: &str = "$KV.b.l.";

/// Names: what is a key, and how stores write it. Different keys are written differently, and what is
/// written gives its key back.
pub fn key(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let middle = (text.len() / 2..=text.len()).find(|at| text.is_char_boundary(*at));
    let (one, other) = text.split_at(middle.unwrap_or(0));
    name(text);
    if let (Some((one, as_one)), Some((other, as_other))) = (name(one), name(other)) {
        assert_eq!(one == other, as_one == as_other, "{one:?} and {other:?}");
        let [one, other] = [one, other].map(|key| dynamodb_partition_key(&key));
        assert_eq!(one == other, as_one == as_other);
    }
}

/// What holds for one text; the key that it is, and the subject of that.
fn name(text: &str) -> Option<(Key, String)> {
    let plain = !text.contains(char::is_control);
    assert_eq!(Owner::new(text).is_ok(), plain && (1..=256).contains(&text.len()), "{text:?}");
    // As a store might have it.
    let subject = [SUBJECTS, text].concat();
    if let Some(key) = BUCKET.key(&subject) {
        assert_eq!(BUCKET.subject(&key), subject);
    }
    if let Some(key) = dynamodb_key(text) {
        assert_eq!(dynamodb_partition_key(&key), text);
    }
    if let Ok(id) = text.parse::<LeaseId>() {
        assert_eq!(id.reveal(), text.to_ascii_lowercase());
    }
    if let Ok(id) = text.parse::<SessionId>() {
        assert_eq!(id.reveal(), text.to_ascii_lowercase());
    }
    let key = Key::new(text);
    assert_eq!(key.is_ok(), plain && (1..=512).contains(&text.len()), "{text:?}");
    if key.is_err()
        && let Ok(key) = Key::stored(text)
    {
        assert!(key.is_session());
        written(&key);
    }
    let key = key.ok()?;
    let subject = written(&key);
    Some((key, subject))
}

fn written(key: &Key) -> String {
    let subject = BUCKET.subject(key);
    let tail = subject.strip_prefix(SUBJECTS).expect("the subjects of leases");
    let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'.' | b'*' | b'>');
    assert!(!tail.is_empty() && tail.bytes().all(plain), "{subject:?} is one token");
    assert_eq!(BUCKET.key(&subject).as_ref(), Some(key));
    let pk = dynamodb_partition_key(key);
    assert!(pk.len() <= 2048);
    assert_eq!(dynamodb_key(&pk).as_ref(), Some(key));
    subject
}

/// Cursors of events: there is one way to write each.
pub fn cursor(data: &[u8]) {
    if let Some((at, tag)) = data.split_first_chunk::<12>() {
        let (revision, index) = at.split_at(8);
        let revision = Revision(u64::from_le_bytes(revision.try_into().expect("8 bytes")));
        let index = u32::from_le_bytes(index.try_into().expect("4 bytes"));
        let at = Position { revision, index };
        let tag: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(read_cursor(&write_cursor(&tag, at)), Some((&*tag, at)));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some((tag, at)) = read_cursor(text) {
        assert_eq!(write_cursor(tag, at), text);
    }
}

/// Bodies and queries: never a panic; every refusal is a 400 that says what is wrong, in terms of JSON, and
/// names the field where there is a JSON object at all; and what is accepted is what `openapi.json` allows.
///
/// The first byte chooses the door.
pub fn body(data: &[u8]) {
    let Some((&door, data)) = data.split_first() else { return };
    let door = usize::from(door) % (BODIES.len() + 5);
    let Some(door) = BODIES.get(door) else {
        if let Ok(text) = std::str::from_utf8(data)
            && let Err(refused) = read_query(door - BODIES.len(), text)
        {
            complains(&refused);
        }
        return;
    };
    match (door.read)(data) {
        Ok(()) => {
            let value = if data.is_empty() { Value::Null } else { parsed(data).expect("JSON") };
            schema::check(door.path, &value);
        }
        Err(refused) => {
            complains(&refused);
            let object = refused.field.is_none() && parsed(data).is_some_and(|v| v.is_object());
            assert!(!object, "{} names no field: {refused:?}", door.path);
        }
    }
}

fn parsed(data: &[u8]) -> Option<Value> {
    serde_json::from_slice(data).ok()
}

fn complains(refused: &Refused) {
    let Refused { status, detail, .. } = refused;
    assert!(*status == 400 && !detail.is_empty(), "{refused:?}");
    // The words of serde and of Rust are nobody's outside.
    let expected = detail.rsplit_once(", expected ").map_or("", |(_, expected)| expected);
    let foreign = ["u8", "u16", "u32", "u64", "usize", "struct ", "a sequence", "a map", "variant"];
    assert!(!foreign.iter().any(|word| expected.starts_with(word)), "{refused:?}");
}

/// Settings files: never a panic; what is refused is explained; what is accepted can be shown, and is the
/// same when it is read again.
pub fn settings(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match read_settings(text) {
        Err(faults) => {
            assert!(!faults.0.is_empty());
            assert!(faults.0.iter().all(|fault| !fault.problem.is_empty()), "{faults}");
        }
        // It takes ten times as long as all the rest.
        Ok(_) if text.len() % 8 != 0 => {}
        Ok(loaded) => {
            for with_origin in [false, true] {
                let shown = loaded.to_toml(with_origin);
                // What is not shown is not read again.
                if shown.contains("is set, and not shown") {
                    continue;
                }
                let again = read_settings(&shown).unwrap_or_else(|faults| {
                    panic!("what is shown is not accepted: {faults}\n{shown}")
                });
                assert_eq!(again.settings, loaded.settings, "{shown}");
            }
        }
    }
}
