drop table community_chat_message;
drop table community_chat_unstored;
drop table community_chat_send;
drop table community_room_member;
drop table community_room;
drop table community_chat_sequence;
