//! The loads that members of pools report.

use super::{Invalid, Manager, SessionError};
use crate::lease::{
    Moment, SessionId,
    reports::{MAX_REPORT_BYTES, Report},
};

impl Manager {
    /// Notes the loads that a heartbeat of a session reports, which was received at this moment and is valid. They count in
    /// a pool whose leases move by load.
    ///
    /// # Errors
    /// [`SessionError`] if the session joined no pool, or if there is no room for all loads.
    pub fn report_loads(
        &self,
        id: SessionId,
        report: Option<&Report>,
        received: Moment,
    ) -> Result<(), SessionError> {
        let Some(session) = self.coordinator.sessions.get(id.digest) else { return Ok(()) };
        let Some(report) = report else {
            session.reported.beat(id.proof, received);
            return Ok(());
        };
        let Some(pool) = session.spec.pool.as_deref() else {
            let detail = "needs a session that joined a pool".to_owned();
            let field = if report.loads.is_empty() { "load_limit" } else { "loads" };
            return Err(Invalid { field, detail }.into());
        };
        if self.coordinator.policy_table().load_tolerance(pool).is_none() {
            return Ok(());
        }
        let member = (&*self.coordinator.pools, pool, id.digest);
        let noted = session.reported.report(member, (id.proof, received), report);
        noted.map_err(|bytes| {
            let detail = format!(
                "need {bytes} bytes with those reported before; at most {MAX_REPORT_BYTES} are allowed"
            );
            Invalid { field: "loads", detail }.into()
        })
    }
}
