//! placeholder
pub async fn run(_cycles: u64, _seed: u64) {}
