//! Reading many keys of a store, a page at a time.

use std::sync::{Arc, atomic::Ordering::SeqCst};

use tempfile::TempDir;
use tenure::{lease::Revision, store::Pages};

use crate::stores::{
    any::inner,
    lab::{commit, grant, key},
    meddled::Meddled,
};

/// A store that has records of these keys.
async fn store_of(names: &[&str]) -> (TempDir, Arc<Meddled>) {
    let (dir, inner) = inner();
    for name in names {
        commit(&inner, grant(&key(name), Revision::ABSENT, 1)).await;
    }
    (dir, Meddled::new(inner))
}

/// The names on the pages that are left.
async fn rest(pages: &mut Pages<'_>) -> Vec<Vec<String>> {
    let mut read = Vec::new();
    while let Some(page) = pages.next().await.expect("a page") {
        read.push(page.iter().map(|(key, _)| key.as_str().to_owned()).collect());
    }
    read
}

#[tokio::test]
async fn every_key_is_on_one_page() {
    let (_dir, store) = store_of(&["a", "b", "c", "d", "e"]).await;
    let mut pages = Pages::of(&*store, "", 2);
    assert_eq!(rest(&mut pages).await, [vec!["a", "b"], vec!["c", "d"], vec!["e"]]);
    assert!(pages.next().await.expect("a page").is_none(), "the end stays the end");
    assert_eq!(rest(&mut Pages::of(&*store, "", 5)).await.len(), 1);
    let (_dir, empty) = store_of(&[]).await;
    assert!(rest(&mut Pages::of(&*empty, "", 5)).await.is_empty());
}

#[tokio::test]
async fn a_prefix_and_a_position_leave_keys_out() {
    let (_dir, store) = store_of(&["a", "b/1", "b/2", "b/3", "c"]).await;
    let mut pages = Pages::of(&*store, "b/", 1).after(Some("b/1".to_owned()));
    assert!(pages.next().await.expect("a page").is_some());
    assert_eq!(rest(&mut pages).await, [vec!["b/3"]]);
    assert_eq!(pages.into_position().as_deref(), Some("b/3"));
    assert_eq!(Pages::of(&*store, "b/", 1).into_position(), None);
}

#[tokio::test]
async fn a_failure_skips_nothing() {
    let (_dir, store) = store_of(&["a", "b", "c"]).await;
    let mut pages = Pages::of(&*store, "", 1);
    assert!(pages.next().await.expect("a page").is_some());
    store.unlistable.store(true, SeqCst);
    assert!(pages.next().await.is_err());
    store.unlistable.store(false, SeqCst);
    assert_eq!(rest(&mut pages).await, [vec!["b"], vec!["c"]]);
}
