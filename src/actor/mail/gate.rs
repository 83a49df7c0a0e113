//! Ends that are due at the same instant take turns, so that other tasks of the thread wait for a few of them, not for
//! all.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
};

/// How many ends of one thread are written at a time: enough for large groups of writes, and few enough that a
/// heartbeat between them waits for some milliseconds at most.
const PERMITS: usize = 256;

thread_local! {
    static GATE: Gate = Gate::default();
}

#[derive(Default)]
struct Gate {
    inside: Cell<usize>,
    queue: RefCell<VecDeque<Turn>>,
}

type Turn = Box<dyn FnOnce(Permit)>;

/// Permission to write an end. Its drop passes it on to the one that has waited longest, also when its actor dies, or
/// when it is lost in the mailbox of an actor that died.
#[derive(Debug)]
pub struct Permit(());

/// Enters the gate of this thread, unless the gate is full or others wait.
pub fn enter() -> Option<Permit> {
    GATE.with(|gate| {
        let open = gate.queue.borrow().is_empty() && gate.inside.get() < PERMITS;
        open.then(|| {
            gate.inside.set(gate.inside.get() + 1);
            Permit(())
        })
    })
}

/// After [`enter`] returned `None`: calls `turn` with the permit when it is this caller's turn.
pub fn queue_up(turn: impl FnOnce(Permit) + 'static) {
    GATE.with(|gate| gate.queue.borrow_mut().push_back(Box::new(turn)));
}

impl Drop for Permit {
    fn drop(&mut self) {
        // Nothing is borrowed while `turn` is called, so the queue can be borrowed in there.
        let next = GATE.try_with(|gate| {
            let next = gate.queue.try_borrow_mut().ok().and_then(|mut queue| queue.pop_front());
            if next.is_none() {
                gate.inside.set(gate.inside.get().saturating_sub(1));
            }
            next
        });
        if let Ok(Some(turn)) = next {
            turn(Permit(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn the_gate_lets_in_as_many_as_it_has_permits_and_then_one_for_one_in_order() {
        let mut inside: Vec<_> = (0..PERMITS).filter_map(|_| enter()).collect();
        assert_eq!(inside.len(), PERMITS);
        let turns: Rc<RefCell<Vec<(usize, Permit)>>> = Rc::default();
        for number in 0..3 {
            let turns = turns.clone();
            assert!(enter().is_none());
            queue_up(move |permit| turns.borrow_mut().push((number, permit)));
        }
        drop(inside.pop());
        assert_eq!(turns.borrow().iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0]);
        // A permit that its receiver drops goes to the next one.
        let first = turns.borrow_mut().pop();
        drop(first);
        assert_eq!(turns.borrow().iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1]);
        drop(inside);
        let last = std::mem::take(&mut *turns.borrow_mut());
        assert_eq!(last.len(), 2);
        drop(last);
        assert!(enter().is_some());
    }
}
