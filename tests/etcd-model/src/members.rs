//! The server's reports on itself: members, status, alarms.

use etcd_client::{
    AlarmAction, AlarmType,
    proto::{
        PbAlarmMember, PbAlarmRequest, PbAlarmResponse, PbMember, PbMemberListResponse,
        PbStatusResponse,
    },
};

use crate::Model;

pub(crate) const CLUSTER: u64 = 0xcdf8_181e_3227_7aee;
pub(crate) const MEMBER: u64 = 0x8e9e_05c5_2164_694d;
pub(crate) const RAFT_TERM: u64 = 2;

impl Model {
    /// Returns the single member, which votes.
    #[must_use]
    pub fn member_list(&self) -> PbMemberListResponse {
        let member = PbMember {
            id: MEMBER,
            name: "model".to_owned(),
            peer_ur_ls: vec!["http://localhost:2380".to_owned()],
            client_ur_ls: vec!["http://localhost:2379".to_owned()],
            is_learner: false,
        };
        PbMemberListResponse { header: self.header(self.keys.revision), members: vec![member] }
    }

    /// Returns its version, with itself as the leader.
    #[must_use]
    pub fn status(&self) -> PbStatusResponse {
        let size = i64::try_from(self.keys.size()).unwrap_or(i64::MAX);
        let index = self.keys.revision.unsigned_abs();
        PbStatusResponse {
            header: self.header(self.keys.revision),
            version: "3.5.16".to_owned(),
            db_size: size,
            leader: MEMBER,
            raft_index: index,
            raft_term: RAFT_TERM,
            raft_applied_index: index,
            db_size_in_use: size,
            ..PbStatusResponse::default()
        }
    }

    /// Raises, lowers or lists the NOSPACE alarms of members.
    pub fn alarm(&mut self, request: &PbAlarmRequest) -> PbAlarmResponse {
        let (of, is_raised) = (request.member_id, self.alarms.contains(&request.member_id));
        let is_space = request.alarm == i32::from(AlarmType::Nospace);
        let members = match AlarmAction::try_from(request.action) {
            Ok(AlarmAction::Get) if is_space || request.alarm == 0 => self.alarms.clone(),
            Ok(AlarmAction::Activate) if is_space => {
                if !is_raised {
                    self.alarms.push(of);
                }
                vec![of]
            }
            Ok(AlarmAction::Deactivate) if is_space && is_raised => {
                self.alarms.retain(|member| *member != of);
                vec![of]
            }
            _ => vec![],
        };
        let alarm = |member_id| PbAlarmMember { member_id, alarm: AlarmType::Nospace.into() };
        let alarms = members.into_iter().map(alarm).collect();
        PbAlarmResponse { header: self.header(self.keys.revision), alarms }
    }

    /// Returns `true` while the NOSPACE alarm is raised: puts and leases are refused.
    pub(crate) fn is_full(&self) -> bool {
        !self.alarms.is_empty()
    }
}
