//! Characters that are not seen: the list of them is generated, new names may not have them, and no door shows them.

mod doors;
mod names;
mod table;
