//! What is demanded of every store: one test of each.

/// Hands the list of demands to another macro, after what that one is given besides.
macro_rules! demands {
    ($then:ident! $($given:tt)*) => {
        $then! {
            $($given)*
            cas::one_of_many_writers_wins;
            cas::a_conflict_tells_what_is_there;
            cas::nothing_is_lost_between_two_handles;
            cas::revisions_and_tokens_rise_through_release_and_regrant;
            cas::revisions_and_tokens_rise_through_a_deletion_by_hand;
            records::records_of_every_shape_come_back;
            records::the_longest_of_everything_comes_back;
            keys::any_key_has_a_record_of_its_own;
            keys::keys_that_look_alike_are_different_keys;
            scan::pages_of_a_prefix_come_in_byte_order;
            scan::keys_are_counted_as_they_change;
            scan::a_read_sees_what_any_handle_committed;
            feed::every_handle_hears_every_change_in_order;
            feed::what_was_not_committed_is_not_told;
            feed::the_history_is_the_feed_from_any_position;
            feed::what_is_no_longer_kept_is_said;
            forget::a_forgotten_session_is_gone_for_every_handle;
            forget::only_the_expected_revision_is_forgotten;
            forget::a_forgotten_key_begins_anew;
            forget::the_revisions_of_a_forgotten_key_go_on;
            damage::a_record_that_rotted_is_one_keys_trouble;
            damage::a_record_of_a_newer_program_is_one_keys_trouble;
            load::many_keys_are_there_when_it_is_opened_again;
            load::writes_to_different_keys_do_not_wait_for_each_other;
            load::every_future_resolves_while_the_store_is_out_of_reach;
            meta::every_handle_sees_the_same_store;
            meta::a_raised_epoch_is_seen;
            meta::a_raised_epoch_and_a_node_that_registers_notice_each_other;
            meta::a_store_that_went_backwards_is_frozen_until_its_epoch_is_raised;
            nodes::a_node_record_is_written_under_its_revision;
            nodes::a_terminal_record_stays_until_it_is_forgotten;
            nodes::every_handle_sees_every_node;
        }
    };
}
pub(crate) use demands;
