drop table /*M! if exists */ tasteam_review;
drop table /*M! if exists */ tasteam_group_member;
drop table /*M! if exists */ tasteam_group;
drop table /*M! if exists */ tasteam_restaurant;
drop table /*M! if exists */ tasteam_sequence;
