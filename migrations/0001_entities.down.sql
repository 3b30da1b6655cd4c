DROP TABLE sa_audit;
DROP TABLE sa_edge;
DROP TABLE sa_entity;
