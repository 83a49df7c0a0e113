//! `config/tenure.toml` is written from the table of settings; `UPDATE=1` writes it anew.

use std::path::Path;

use tenure::settings::shipped_file;

#[test]
fn the_committed_file_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/tenure.toml");
    let text = shipped_file();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).expect("config/tenure.toml can be written");
    }
    let committed = std::fs::read_to_string(&path).expect("config/tenure.toml is there");
    assert!(committed == text, "config/tenure.toml is not what the table says: run `make openapi`");
}
