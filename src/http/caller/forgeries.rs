//! How many signatures of JWTs are verified for callers who have not shown who they are.
//!
//! Guarantees: JWTs with wrong signatures cost one address no more verifications per second than [`Meter`] allows,
//! however many come. A JWT that was verified before needs none. A JWT that is new is verified on a connection that is
//! already a principal's, and as the first one of a new connection.
//!
//! Does not guarantee: that a new JWT is verified at once on a new connection, while another caller at the
//! same address opens many connections and shows a wrong JWT on each.

use std::{cell::OnceCell, sync::Arc};

use actix_web::HttpRequest;

use super::{connection::Belongs, meter::Meter, rate::Cell};
use crate::{
    access::{Allowance, Broken},
    telemetry::LimitKind,
};

/// The verifications that are left to the caller of a request.
pub struct Forgeries<'a> {
    meter: &'a Meter,
    request: &'a HttpRequest,
    /// The cell to which a wrong signature is charged.
    charged: OnceCell<Arc<Cell>>,
}

impl<'a> Forgeries<'a> {
    /// For the caller of this request.
    pub fn of(meter: &'a Meter, request: &'a HttpRequest) -> Self {
        Self { meter, request, charged: OnceCell::new() }
    }

    /// The cell that allows one more verification.
    fn open(&self) -> Option<Arc<Cell>> {
        let belongs = self.request.conn_data::<Belongs>();
        let own = belongs.filter(|belongs| belongs.is_known());
        let own = own.map(|belongs| belongs.forgeries(|| self.meter.own_forgeries()));
        if let Some(own) = own.filter(|own| own.settled().is_ok()) {
            return Some(own);
        }
        let peer = self.request.peer_addr().map(|peer| peer.ip());
        let [all, first] = self.meter.forgeries(peer);
        let is_first = belongs.is_some_and(Belongs::verifies_first);
        if all.settled().is_ok() {
            return Some(all);
        }
        Some(first).filter(|first| is_first && first.settled().is_ok())
    }
}

impl Allowance for Forgeries<'_> {
    fn is_left(&self) -> bool {
        if Broken::VerificationsWithoutBound.is_active() {
            return true;
        }
        match self.open() {
            Some(cell) => {
                let _ = self.charged.set(cell);
                true
            }
            None => {
                self.meter.refused(LimitKind::Forgeries);
                false
            }
        }
    }

    fn failed(&self) {
        if let Some(cell) = self.charged.get() {
            cell.owe(1);
        }
    }
}
