//! tenure
fn main() {}
