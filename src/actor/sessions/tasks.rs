//! The tasks of sessions, which run for as long as the process.

use std::sync::Arc;

use super::{
    cleanup_task::clean_up, indexing::index_sessions, inquiries::answer_inquiries,
    late_handovers::watch_deadlines, read_session_leases::keep_complete,
    reissues::reissue_revocations, service::SessionService,
};
use crate::actor::runtime::tasks::supervise;

pub fn start(service: &Arc<SessionService>) {
    supervise(service, "session leases", |service| async move { keep_complete(&service).await });
    supervise(service, "session cleanup", |service| async move { clean_up(&service).await });
    supervise(service, "session indexing", |service| async move { index_sessions(&service).await });
    supervise(service, "session inquiries", |service| async move {
        answer_inquiries(&service).await;
    });
    supervise(service, "session hand-overs", |service| async move {
        watch_deadlines(&service).await;
    });
    supervise(service, "session revocations", |service| async move {
        reissue_revocations(&service).await;
    });
}
