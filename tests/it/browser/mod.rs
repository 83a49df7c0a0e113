//! A real Chromium on the machine of somebody who can reach a coordinator, and pages of others in it.
//!
//! Shown: a page of another origin, or one whose name comes to stand for the coordinator's address, changes nothing and
//! reads nothing. The audit log shows that its calls arrived. The same browser shows the coordinator's own pages, which
//! work without a mouse, in both themes, and on a phone.

mod docs;
mod page;
mod rebinding;
mod site;
mod strangers;
mod victim;
