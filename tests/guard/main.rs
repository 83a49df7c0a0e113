//! `tenure guard`: its state machine, put to the question (`machine`).

mod machine;
