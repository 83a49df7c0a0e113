//! The coordinator's page, as somebody on call sees and uses it.

mod attention;
mod filters;
mod hidden;
mod keyboard;
mod live;
mod looks;
mod lost;
mod many;
mod orders;
mod shown;
mod texts;
mod words;
